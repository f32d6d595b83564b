"""What our own broker leaves is clean by our own check, after a stop and after a kill."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from oncelog.broker.log.cleaner import clean
from oncelog.broker.log.compaction import plan_cleaning
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.offset_map import ENTRY_BYTES, OffsetMap
from oncelog.broker.log.steps import run
from oncelog.cli.main import main
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.producer import Producer
from oncelog.inspect.findings import Severity
from oncelog.inspect.verify import Totals
from oncelog.inspect.verify_data import find, verify
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record
from oncelog.testing import Broker

NOW = 1_700_000_000_000


def write(bootstrap_servers: str, topic: str) -> None:
    with Cluster(bootstrap_servers) as cluster:
        if topic not in [known.name for known in cluster.topics()]:
            Admin(cluster).create_topic(topic, partitions=2, configs={"segment.bytes": "1048576"})
        for codec in Compression:
            with Producer(cluster, idempotent=True, compression=codec, batch_size_bytes=20_000) as producer:
                for number in range(1000):
                    producer.produce(topic, random.randbytes(1000), key=b"%d" % number)


def errors(path: Path) -> list[str]:
    totals = Totals()
    findings = list(verify(path, find(path), totals, lambda _: None))
    assert totals.segments > 2
    return [finding.line() for finding in findings if finding.severity is Severity.ERROR]


def test_after_a_stop_a_kill_and_a_recovery(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(subprocess=True, data_dir=data) as broker:
        write(broker.bootstrap_servers, "orders")
        broker.stop()
        assert errors(data) == []
        broker.start()
        write(broker.bootstrap_servers, "orders")
        broker.kill()
        assert errors(data) == []
        broker.start()
        broker.stop()
        assert errors(data) == []


def test_after_compaction_and_deleted_records(tmp_path: Path) -> None:
    """Built with the log itself: segments that compaction merged, and a log start inside of the first segment."""
    config = LogConfig(
        segment_bytes=2000, index_interval_bytes=100, cleanup_compact=True, min_cleanable_dirty_ratio=0.0
    )
    data = tmp_path / "data"
    manager = LogManager.open(str(data), lambda topic: config)
    list(manager.recover(NOW))
    for topic in ("compacted", "deleted"):
        log = manager.create(topic, 0, bytes([7] * 16), now_ms=NOW)
        for number in range(100):
            batch = build_batch(
                [Record(0, NOW, b"%d" % (number % 3), b"v" * 50)],
                producer_id=number % 2,
                producer_epoch=0,
                base_sequence=number // 2,
            )
            log.append(batch, read_header(batch), leader_epoch=number // 40, now_ms=NOW)
        log.flush()
        log.update_high_watermark(100)
    manager.write_checkpoints()
    log = manager.logs["compacted", 0]
    count = len(log.closed_segments())
    # The first round makes the segments small, the second merges them.
    for _ in range(2):
        plan = run(plan_cleaning(log, None, NOW))
        assert plan is not None
        for segments, cleaned in list(clean(plan, OffsetMap(100 * ENTRY_BYTES, 1.0), lambda _: None)):
            if cleaned is not None:
                log.replace_segments(segments, cleaned, now_ms=NOW)
    manager.cleaner_offsets["compacted", 0] = log.active.base_offset
    assert len(log.closed_segments()) < count
    manager.logs["deleted", 0].delete_records_before(7)
    manager.close()
    assert errors(data) == []


def test_a_broker_that_runs_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    manager = LogManager.open(str(data), lambda topic: LogConfig())
    list(manager.recover(NOW))
    manager.create("t", 0, bytes([7] * 16), now_ms=NOW).flush()
    said = "a broker is using this directory; what it has not flushed may look damaged"
    for path in (data, data / "t-0"):
        assert main(["verify-log", str(path)]) == 0
        captured = capsys.readouterr()
        assert captured.err == f"oncelog verify-log: {path}: {said}\n"
        assert captured.out.endswith("no errors\n")
    manager.close()
    assert main(["verify-log", str(data)]) == 0
    assert capsys.readouterr().err == ""
