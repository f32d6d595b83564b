"""Flags and YAML give the same settings; what is wrong is said in one line."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from oncelog.client.security.options import PLAINTEXT
from oncelog.pipeline.audit import SourceCluster
from oncelog.pipeline.commands import main
from oncelog.pipeline.config import ConfigError, EtlConfig, add_etl_flags, parse_etl, with_prefix

pytest.importorskip("yaml", reason="needs the extra `pipeline`")

NEEDED = ["--bootstrap", "h:1", "--checkpoint", "c", "--transactional-id", "t"]


def parse(*arguments: str) -> EtlConfig:
    parser = argparse.ArgumentParser()
    add_etl_flags(parser)
    return parse_etl(parser.parse_args(arguments))


def test_flags() -> None:
    config = parse(*NEEDED, "--from", "a,b", "--to", "o", "--sink-option", "kafka.batch.size=10", "--available-now")
    assert config.sources == ["a", "b"]
    assert config.target == "o"
    assert config.sink_options == {"kafka.batch.size": "10"}
    assert config.available_now
    assert config.sink == "exactly-once"


def test_a_file_says_the_same_and_flags_override_it(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "bootstrap: h:1\nfrom: [a]\nto: o\ntransactional-id: t\ncheckpoint: c\nmax-offsets: 5\n"
        "sink_options: {kafka.compression.type: lz4}\n"
    )
    config = parse("--config", str(path), "--to", "other", "--sink-option", "kafka.batch.size=1")
    assert (config.sources, config.target, config.max_offsets) == (["a"], "other", 5)
    assert config.sink_options == {"kafka.compression.type": "lz4", "kafka.batch.size": "1"}


def test_kafkas_settings_are_for_source_and_sink_alike(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nclient.id=x\n")
    path = tmp_path / "job.yaml"
    path.write_text(
        f"bootstrap: h:1\nfrom: a\nto: o\ntransactional-id: t\ncheckpoint: c\ncommand-config: {properties}\n"
        "kafka: {sasl.mechanism: SCRAM-SHA-256, ssl.truststore.type: PEM}\n"
    )
    config = parse("--config", str(path), "--kafka", "ssl.truststore.type=PKCS12")
    assert with_prefix(config.kafka) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.ssl.truststore.type": "PKCS12",
    }
    assert with_prefix({"kafka.security.protocol": "SSL"}) == {"kafka.security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kafka", "security.protocol=SSSL"], "kafka.security.protocol is 'SSSL'"),
        (["--kafka", "sasl.jaas.config=x"], "kafka.sasl.jaas.config has no use"),
        (["--sink-option", "kafka.acks=1"], "kafka.acks=1 would give up exactly-once"),
    ],
)
def test_a_setting_of_the_sink_that_is_wrong_is_said_before_spark_starts(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["etl", *NEEDED, "--from", "a", "--to", "o", *arguments]) == 2
    assert re.match(f"etl: {words}.*\n$", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "a"], "--bootstrap is missing"),
        (NEEDED, "either --from or --pattern"),
        ([*NEEDED, "--from", "a", "--pattern", "b"], "either --from or --pattern"),
        ([*NEEDED, "--from", "a", "--sql", "x", "--function", "m:f"], "either --sql or --function"),
        ([*NEEDED, "--from", "a", "--sink-option", "x"], "not KEY=VALUE"),
        (["--config", "nowhere.yaml"], "cannot be read"),
        ([*NEEDED, "--from", "a", "--command-config", "nowhere"], "--command-config: cannot read nowhere"),
        ([*NEEDED, "--from", "a", "--kafka", "x"], "kafka: what begins with 'x' is not KEY=VALUE"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(*arguments)


@pytest.mark.parametrize("given", ["sasl.jaas.config X password=hunter2", "sasl.jaas.config: hunter2"])
def test_no_message_and_no_repr_has_a_password(given: str) -> None:
    with pytest.raises(ConfigError, match=r"what begins with 'sasl\.jaas\.config' is not") as caught:
        parse(*NEEDED, "--from", "a", "--kafka", given)
    assert "hunter2" not in str(caught.value)
    config = parse(*NEEDED, "--from", "a", "--kafka", f"sasl.jaas.config={given}", "--spark", "x.password=hunter2")
    cluster = SourceCluster(None, "h:1", config.kafka, PLAINTEXT)
    for text in (repr(config), repr(cluster)):
        assert "hunter2" not in text
        assert "sasl.jaas.config=…" in text


def test_a_name_without_settings_is_as_none(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("bootstrap: h:1\nfrom: a\ntransactional-id: t\ncheckpoint: c\nkafka:\nspark:\n")
    config = parse("--config", str(path))
    assert (config.kafka, config.spark) == ({}, {})


def test_the_audit_says_what_is_wrong_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSSL\n")
    flags = ["--bootstrap", "h:1", "--input", "a", "--output", "b", "--command-config", str(path)]
    assert main(["audit", *flags]) == 2
    assert "security.protocol is 'SSSL'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["- a list", "nonsense: 1", "a: [unclosed", "kafka: a=b", "kafka: [1]"])
def test_a_bad_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        parse("--config", str(path))


def test_the_command_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["etl", "--from", "a"]) == 2
    assert capsys.readouterr().err == "etl: --bootstrap is missing\n"
