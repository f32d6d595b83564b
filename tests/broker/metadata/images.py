"""Images for the tests of plans, made the way that the broker makes them: by applying what plans write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.metadata.controller import NewTopic, Plan, TopicLimits, plan_create_topics
from oncelog.broker.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage
from oncelog.broker.metadata.plans.cluster import plan_register_broker
from oncelog.broker.metadata.store import Event, Put

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMITS = TopicLimits()


def applied(image: MetadataImage, plan: Plan[Any]) -> MetadataImage:
    """The image after the plan, which must rest on what the image knows."""
    for compare in plan.compares:
        assert image.revision_of(compare.key) == compare.revision
    revision = image.revision + 1
    return image.apply(
        Event(write.key, write.value if isinstance(write, Put) else None, revision) for write in plan.writes
    )


def cluster(broker_count: int = 1, racks: Mapping[int, str] | None = None) -> MetadataImage:
    image = EMPTY_IMAGE
    for broker_id in range(1, broker_count + 1):
        rack = (racks or {}).get(broker_id)
        broker = BrokerImage(broker_id, rack, {"PLAINTEXT": ("127.0.0.1", 9090 + broker_id)})
        image = applied(image, plan_register_broker(image, broker))
    return image


def topic_id(name: str) -> bytes:
    return name.encode()[:16].rjust(16, b"-")


def plan_topics(image: MetadataImage, *topics: NewTopic, limits: TopicLimits = LIMITS, **options: Any) -> Any:
    """`plan_create_topics` with ids made of the names, and with `bad` as the only wrong config."""
    return plan_create_topics(
        image,
        topics,
        limits=limits,
        check_configs=lambda configs: "Unknown topic config name: bad" if "bad" in configs else None,
        topic_ids=[topic_id(topic.name) for topic in topics],
        placement_start=0,
        **options,
    )


def with_topics(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    return applied(image, plan_topics(image, *topics))
