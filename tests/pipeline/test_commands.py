"""The commands as people type them: `oncelog pipeline etl`, `spark-submit`, `audit`, and a stop by SIGTERM."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.pipeline import jars
from oncelog.pipeline.archive import fast_start
from oncelog.pipeline.chaos import EtlProcess, wait_until
from oncelog.pipeline.commands import PROGRAM
from oncelog.pipeline.config import ConfigError
from oncelog.pipeline.evidence import read_topic
from oncelog.pipeline.transform import load_function
from oncelog.testing import Broker

pytest.importorskip("yaml", reason="needs the extra `pipeline`")
pytest.importorskip("matplotlib", reason="needs the extra `pipeline`")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

RECORDS = 3_000
SQL = PROGRAM.with_name("sql") / "trace.sql"


@pytest.fixture
def servers() -> Iterator[str]:
    if (reason := jars.missing()) is not None:
        pytest.skip(reason)
    with Broker(subprocess=True) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            Admin(cluster).create_topic("in", partitions=2)
            Admin(cluster).create_topic("out", partitions=3)
            with Producer(cluster) as producer:
                for number in range(RECORDS):
                    producer.produce("in", b"%d" % number, key=b"key-%d" % (number % 97))
        yield broker.bootstrap_servers


def write_config(directory: Path, servers: str) -> Path:
    path = directory / "job.yaml"
    options = "".join(f"  {key}: '{value}'\n" for key, value in fast_start().items())
    path.write_text(
        f"bootstrap: {servers}\nfrom: in\nto: out\nsql: {SQL}\ntransactional-id: etl\nmax-offsets: 300\n"
        f"trigger-seconds: 0.1\ncheckpoint: {directory / 'checkpoint'}\nspark:\n{options}"
    )
    return path


def test_a_job_is_stopped_submitted_anew_and_audited(tmp_path: Path, servers: str) -> None:
    config = write_config(tmp_path, servers)
    etl = EtlProcess(["--config", str(config)], tmp_path / "etl.log")
    try:
        etl.start()
        assert wait_until(lambda: "rows written" in etl.log() or etl.exit_code is not None)
        etl.terminate()
        assert etl.wait() == 0, etl.log()
    finally:
        etl.close()
    assert "stopping after the batch" in etl.log()
    assert "Exception" not in etl.log()
    assert "transaction etl (producer 0, epoch 0)" in etl.log()
    submitted = submit("etl", "--config", str(config), "--available-now")
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert "lag 0" in submitted.stdout
    committed = read_topic(servers, "out", Isolation.READ_COMMITTED)
    assert len(committed) == len({each.value for each in committed}) == RECORDS
    report = tmp_path / "report.html"
    flags = ["--bootstrap", servers, "--input", "in", "--output", "out", "--report", str(report)]
    audited = submit("audit", *flags)
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert f"exactly once: {RECORDS} expected, {RECORDS} visible, 0 lost, 0 duplicated" in audited.stdout
    assert str(report) in audited.stdout
    text = report.read_text()
    assert "Exactly once" in text
    assert re.search(rf"<title>Audit of in · broker {servers} · time .* UTC · transactional id etl</title>", text)
    assert "Visible records, by the time at which they were written" in text


def submit(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("spark-submit", path=str(Path(sys.executable).parent))
    assert program is not None
    path = ":".join(str(jar) for jar in jars.connector_jars())
    command = [program, "--master", "local[2]", "--driver-class-path", path]
    command += ["--driver-java-options", fast_start()["spark.driver.extraJavaOptions"]]
    command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
    command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    command += ["--conf", f"spark.pyspark.python={sys.executable}", str(PROGRAM), *arguments]
    # spark-submit looks for Spark with the first python3 on the path, which need not be this one.
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)


def test_a_function_is_named_with_its_module() -> None:
    assert load_function("json:dumps")([1]) == "[1]"
    for name, words in (
        ("json", "not MODULE:NAME"),
        ("no_such_module:f", "cannot be imported"),
        ("json:nothing", "no function"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_function(name)
