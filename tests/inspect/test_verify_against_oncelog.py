"""What our own broker leaves is clean by our own check, after a stop and after a kill."""

from __future__ import annotations

import random
from pathlib import Path

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.producer import Producer
from oncelog.inspect.findings import Severity
from oncelog.inspect.verify import Totals
from oncelog.inspect.verify_data import find, verify
from oncelog.protocol.records.compression import Compression
from oncelog.testing import Broker


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
