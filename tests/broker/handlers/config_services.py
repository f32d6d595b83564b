"""As much of a broker as the handlers of settings need: real metadata in a store of its own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from oncelog.broker.config import BrokerConfig, Setting
from oncelog.broker.metadata.sqlite import SqliteStore
from oncelog.broker.metadata.topic_plans import NewTopic
from oncelog.broker.runtime.context import RequestContext
from oncelog.broker.runtime.metadata import MetadataRuntime
from oncelog.broker.runtime.topics import create_topics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from oncelog.broker.metadata.image import MetadataImage

BROKER_ID = 1
TOPIC = "t"


@asynccontextmanager
async def config_services(directory: Path) -> AsyncIterator[Any]:
    """Services with one broker, one topic and nothing set."""
    store = await SqliteStore.open(directory / "metadata.sqlite")
    metadata = MetadataRuntime(store)
    static = BrokerConfig([Setting("ssl.key.password", "hush", "test")])
    services: Any = SimpleNamespace(broker_id=BROKER_ID, config=static, metadata=metadata)

    def image_changed(_: MetadataImage, image: MetadataImage) -> None:
        own = image.broker_configs.get(str(BROKER_ID), {})
        services.config = static.with_overrides(image.broker_configs.get("", {}), own)

    metadata.subscribe(image_changed)
    await metadata.start()
    try:
        yield services
    finally:
        await metadata.close()
        await store.close()


def context_of(services: Any, version: int) -> RequestContext:
    peer = SimpleNamespace(listener_name="PLAINTEXT", peer_host="127.0.0.1")
    return RequestContext(services, version, "test", peer)


async def create_topic(services: Any, name: str, replicas: list[int]) -> None:
    (result,) = await create_topics(services, [NewTopic(name, -1, -1, [(0, replicas)])])
    assert result.outcome.code == 0, result.outcome.message
