"""Telling the cluster about this broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oncelog.broker.metadata.image import BrokerImage
from oncelog.broker.metadata.plans.cluster import plan_register_broker

if TYPE_CHECKING:
    from oncelog.broker.config.broker_config import BrokerConfig
    from oncelog.broker.metadata.runtime import MetadataRuntime


async def register_broker(
    metadata: MetadataRuntime, config: BrokerConfig, listeners: Mapping[str, tuple[str, int]]
) -> None:
    rack = config.value("broker.rack")
    assert rack is None or isinstance(rack, str)
    broker = BrokerImage(config.node_id, rack, dict(listeners))
    await metadata.change(lambda image: plan_register_broker(image, broker))
