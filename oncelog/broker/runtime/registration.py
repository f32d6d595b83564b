"""Telling the cluster about this broker, and taking over the logs of a directory that another broker wrote."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oncelog.broker.metadata.cluster_plans import plan_bootstrap, plan_register_broker
from oncelog.broker.metadata.image import BrokerImage
from oncelog.broker.metadata.keys import TopicRecord, encode_topic, topic_key
from oncelog.broker.metadata.plan import Plan, compare_written
from oncelog.broker.metadata.store import Put
from oncelog.broker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from oncelog.protocol.primitives import uuid_text

if TYPE_CHECKING:
    from oncelog.broker.config.broker_config import BrokerConfig
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.runtime.metadata import MetadataRuntime

logger = logging.getLogger(__name__)


async def adopt_logs(metadata: MetadataRuntime, logs: LogManager, broker_id: int) -> None:
    """On the first start, name the cluster, and register the topics whose logs are already there.

    Apache Kafka keeps its topics in a log of its controllers; what the directories themselves say (names, ids,
    partitions) is enough to go on with the records. Topic configs are not in them and start as defaults.
    """
    if metadata.image.cluster_id:
        return
    cluster_id = logs.meta_properties().get("cluster.id") or uuid_text(uuid.uuid4().bytes)
    found: dict[str, dict[int, bytes]] = {}
    for topic, index in logs.partitions():
        if topic != CLUSTER_METADATA_TOPIC:
            topic_id = logs.topic_id_on_disk(topic, index) or uuid.uuid4()
            found.setdefault(topic, {})[index] = topic_id.bytes

    def plan(image: MetadataImage) -> Plan[None]:
        writes = list(plan_bootstrap(image, cluster_id=cluster_id).writes)
        for topic, partitions in found.items():
            replicas = [(broker_id,)] * (max(partitions) + 1)
            record = TopicRecord(partitions[min(partitions)], replicas, {})
            writes.append(Put(topic_key(topic), encode_topic(record)))
        return Plan(None, writes, compare_written(image, writes))

    await metadata.change(plan)
    logs.write_meta_properties(
        {
            "directory.id": uuid_text(uuid.uuid4().bytes),
            **logs.meta_properties(),
            "version": "1",
            "node.id": str(broker_id),
            "cluster.id": cluster_id,
        }
    )
    if found:
        logger.info("took over %d topics that were in the data directory", len(found))


async def register_broker(
    metadata: MetadataRuntime, config: BrokerConfig, listeners: Mapping[str, tuple[str, int]]
) -> None:
    rack = config.value("broker.rack")
    assert rack is None or isinstance(rack, str)
    broker = BrokerImage(config.node_id, rack, dict(listeners))
    await metadata.change(lambda image: plan_register_broker(image, broker))
