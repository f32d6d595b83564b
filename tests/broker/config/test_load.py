from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.broker.config import ConfigError, Setting
from oncelog.broker.config.load import load_config


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.hours = 5\nbroker.rack=a\nlog.segment.bytes: 2097152\n")
    config = load_config(
        file=file,
        environment={
            "KAFKA_NUM_PARTITIONS": "3",
            "ONCELOG_NUM_PARTITIONS": "4",
            "KAFKA_BROKER_RACK": "b",
            "PATH": "/bin",
        },
        options=["log.retention.hours=6"],
        flags=[Setting("listeners", "PLAINTEXT://:1", "--listen")],
    )
    assert config.int("num.partitions") == 4
    assert config.text("broker.rack") == "b"
    assert config.int("log.retention.hours") == 6
    assert config.int("log.segment.bytes") == 2097152
    assert config.list("listeners") == ["PLAINTEXT://:1"]
    assert config.static["num.partitions"].source == "environment ONCELOG_NUM_PARTITIONS"
    assert config.notes == ()


@pytest.mark.parametrize(
    ("environment", "options", "line"),
    [
        ({}, ["log.segmnt.bytes=1"], 'unknown setting "log.segmnt.bytes" (did you mean "log.segment.bytes"?) (from -o'),
        ({"KAFKA_NUM_PARTITONS": "1"}, [], 'did you mean "num.partitions"?) (from environment KAFKA_NUM_PARTITONS)'),
        ({"ONCELOG_COLOUR": "red"}, [], 'unknown setting "colour" (from environment ONCELOG_COLOUR)'),
        ({"KAFKA_NUM_PARTITIONS": "0"}, [], 'num.partitions (from environment KAFKA_NUM_PARTITIONS): "0" must be at'),
        ({}, ["num.io.threads=many"], 'bad value for num.io.threads (from -o num.io.threads): "many" must be a whole'),
        ({}, ["num.partitions"], 'bad option "num.partitions": it must be key=value'),
        ({}, ["=1"], 'bad option "=1"'),
        ({}, ["node.id=1", "broker.id=2"], "broker.id (2) and node.id (1) must be the same"),
        ({}, ["log.dirs=/a,/b"], "the data lives in one directory, 2 are given"),
        ({}, ["log.dir="], "the data lives in one directory, none is given"),
        ({}, ["log.retention.hours=0"], "bad value for log.retention.hours: 0 must be at least 1, or -1 for no limit"),
        ({}, ["log.roll.ms=0"], "bad value for log.roll.ms: 0 must be at least 1"),
        ({}, ["socket.send.buffer.bytes=0"], "at least 1, or -1 for the OS default"),
        (
            {},
            ["group.min.session.timeout.ms=9", "group.max.session.timeout.ms=8"],
            "group.min.session.timeout.ms (9) must not be above group.max.session.timeout.ms (8)",
        ),
        ({}, ["max.connections.per.ip.overrides=a:b"], '"a:b" must be host:count'),
    ],
)
def test_refusals_are_one_line(environment: dict[str, str], options: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(environment=environment, options=options)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere: No such file"):
        load_config(file=tmp_path / "nowhere")
    bad = tmp_path / "bad.properties"
    bad.write_bytes(b"a=\xff\xfe")
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(file=bad)
    bad.write_text("a=\\uZZZZ")
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(file=bad)


def test_a_kraft_server_properties_is_taken_with_notes() -> None:
    config = load_config(
        options=[
            "process.roles=broker,controller",
            "controller.quorum.voters=1@localhost:9093",
            "num.io.threads=8",
            "zookeeper.connect=localhost:2181",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "listener.name.external.ssl.keystore.password=secret",
            "node.id=7",
        ]
    )
    assert config.node_id == 7
    assert config.notes == (
        "num.io.threads has no effect in this version",
        "zookeeper.connect has no effect: it belongs to Kafka before 4.0",
        "authorizer.class.name has no effect in this version: every client may do everything",
        "listener.name.external.ssl.keystore.password has no effect in this version",
        "process.roles, controller.quorum.voters: not needed, Oncelog has no separate controllers",
    )


def test_identity_and_directory() -> None:
    assert load_config().node_id == 1
    assert load_config(options=["broker.id=5"]).node_id == 5
    assert load_config(options=["node.id=6", "broker.id=6"]).node_id == 6
    assert load_config().data_dir == "data"
    assert load_config(options=["log.dir=/a"]).data_dir == "/a"
    assert load_config(options=["log.dir=/a", "log.dirs=/b"]).data_dir == "/b"
