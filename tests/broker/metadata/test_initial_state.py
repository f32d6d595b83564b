"""What a broker is told to begin with: the id of its cluster, and topics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncelog.broker.app import BrokerApp
from oncelog.broker.config.load import load_config


@asynccontextmanager
async def running(directory: Path, **environment: str) -> AsyncIterator[BrokerApp]:
    settings = [f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0"]
    app = BrokerApp(load_config(options=settings, environment=environment))
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def test_the_cluster_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, CLUSTER_ID="4L6g3nShT-eMCtK--X86sw") as app:
        assert app.services.metadata.image.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert "cluster.id=4L6g3nShT-eMCtK--X86sw\n" in (tmp_path / "meta.properties").read_text()
    assert "is ignored" not in caplog.text
    async with running(tmp_path, CLUSTER_ID="another") as app:
        assert app.services.metadata.image.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert "the cluster id another is ignored: the data belongs to cluster 4L6g3nShT-eMCtK--X86sw" in caplog.text


async def test_topics(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        async with running(tmp_path, KAFKA_CREATE_TOPICS="a:2:3,b:1:1:compact,..:1:1,c:0:1") as app:
            topics = app.services.metadata.image.topics
            assert {name: len(topic.partitions) for name, topic in topics.items()} == {"a": 2, "b": 1}
            assert topics["b"].configs == {"cleanup.policy": "compact"}
    assert [line for line in caplog.messages if line.startswith("topic .. cannot be created: Topic name is invalid")]
    assert [line for line in caplog.messages if line.startswith("topic c cannot be created: ")]
