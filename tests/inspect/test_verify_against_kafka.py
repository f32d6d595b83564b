"""Directories that Apache Kafka wrote are clean, whatever it did to them; each seeded damage to them is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conformance.reference.jars import missing
from conformance.reference.kafka import ApacheKafka
from oncelog.client.cluster import Cluster
from oncelog.inspect.findings import Finding, Severity
from oncelog.inspect.verify import Totals
from oncelog.inspect.verify_data import find, verify
from tests.inspect.damage import DAMAGES, Damage
from tests.inspect.kafka_data import COMPACTED, JAVA, MIXED, RETAINED, SETTINGS, write_codecs, write_data

pytestmark = [pytest.mark.java, pytest.mark.slow]


def check(path: Path) -> list[Finding]:
    return list(verify(path, find(path), Totals(), lambda _: None))


def errors(path: Path) -> list[str]:
    return [finding.line() for finding in check(path) if finding.severity is Severity.ERROR]


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of one data directory: closed, killed while it was written, and closed after its recovery."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    copies = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(SETTINGS) as kafka:
        write_data(kafka)
        kafka.stop()
        shutil.copytree(kafka.data_dir, copies / "closed")
        kafka.start()
        with Cluster(kafka.bootstrap_servers) as cluster:
            write_codecs(cluster, MIXED)
        kafka.kill()
        shutil.copytree(kafka.data_dir, copies / "killed")
        kafka.start()
        kafka.stop()
        shutil.copytree(kafka.data_dir, copies / "recovered")
    return {stage: copies / stage for stage in ("closed", "killed", "recovered")}


@pytest.mark.parametrize("stage", ["closed", "killed", "recovered"])
def test_what_kafka_wrote_is_clean(stages: dict[str, Path], stage: str) -> None:
    assert errors(stages[stage]) == []


def test_the_data_has_what_is_to_be_checked(stages: dict[str, Path]) -> None:
    closed = stages["closed"]
    assert len(list((closed / f"{MIXED}-0").glob("*.log"))) > 1
    assert not (closed / f"{RETAINED}-0" / f"{0:020d}.log").exists()
    notes = {finding.kind for finding in check(closed / f"{MIXED}-0")}
    assert "open-transaction" in notes
    totals = Totals()
    for topic in (COMPACTED, JAVA, RETAINED):
        list(verify(closed / f"{topic}-0", find(closed / f"{topic}-0"), totals, lambda _: None))
    assert totals.batches > 100


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_damage_is_found(stages: dict[str, Path], damage: Damage, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for entry in stages["closed"].iterdir():
        if entry.is_file():
            shutil.copy2(entry, data)
    shutil.copytree(stages["closed"] / f"{MIXED}-0", data / f"{MIXED}-0")
    expected = damage(data / f"{MIXED}-0")
    found = {finding.kind for finding in check(data) if finding.severity is Severity.ERROR}
    assert found & expected, found
