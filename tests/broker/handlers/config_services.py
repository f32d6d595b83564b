"""As much of a broker as the handlers of settings need: real metadata in a store of its own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog.broker.admin.topics import create_topics
from oncelog.broker.base.turns import Turns
from oncelog.broker.config import BrokerConfig, Setting
from oncelog.broker.metadata.image import BrokerImage
from oncelog.broker.metadata.plans.cluster import plan_register_broker
from oncelog.broker.metadata.plans.topics import NewTopic
from oncelog.broker.metadata.runtime import MetadataRuntime
from oncelog.broker.metadata.stores.sqlite import SqliteStore
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.codec import decode, encode
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.schema import Message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from oncelog.broker.metadata.image import MetadataImage

BROKER_ID = 1
TOPIC = "t"
M = TypeVar("M", bound=Message)


@asynccontextmanager
async def config_services(directory: Path) -> AsyncIterator[Any]:
    """Services with one broker, one topic and nothing set."""
    store = await SqliteStore.open(directory / "metadata.sqlite")
    metadata = MetadataRuntime(store)
    static = BrokerConfig([Setting("ssl.key.password", "hush", "test")])
    services: Any = SimpleNamespace(broker_id=BROKER_ID, config=static, metadata=metadata, turns=Turns())

    def image_changed(_: MetadataImage, image: MetadataImage) -> None:
        own = image.broker_configs.get(str(BROKER_ID), {})
        services.config = static.with_overrides(image.broker_configs.get("", {}), own)

    metadata.subscribe(image_changed)
    await metadata.start()
    try:
        broker = BrokerImage(BROKER_ID, None, {"PLAINTEXT": ("127.0.0.1", 9092)})
        await metadata.change(lambda image: plan_register_broker(image, broker))
        (topic,) = await create_topics(services, [NewTopic(TOPIC)])
        assert topic.outcome.code == ErrorCode.NONE, topic.outcome.message
        yield services
    finally:
        await metadata.close()
        await store.close()


def context_of(services: Any, version: int) -> RequestContext:
    peer: Any = SimpleNamespace(listener_name="PLAINTEXT", peer_host="127.0.0.1")
    return RequestContext(services, version, "test", peer)


def over_the_wire(message: M, version: int) -> M:
    """What a client gets of a response."""
    return decode(type(message), version, encode(message, version))
