"""The first start on a data directory: naming the cluster, and taking over logs that another broker wrote.

Only what a broker wrote is taken over: a directory with `meta.properties`, and in it partitions with their files.
Apache Kafka keeps its topics in a log of its controllers. What the directories themselves say (names, ids,
partitions, leader epochs, producers) is enough to go on with their records. Topic configs are not in them and
start as defaults; internal topics get the ones that they need.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncelog.broker.base.ids import random_uuid
from oncelog.broker.log import checkpoints, leader_epochs
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.leader_epochs import LeaderEpochs
from oncelog.broker.metadata.image import INTERNAL_TOPICS
from oncelog.broker.metadata.keys import (
    PRODUCER_IDS,
    PartitionState,
    TopicRecord,
    encode_partition,
    encode_producer_ids,
    encode_topic,
    partition_key,
    topic_key,
)
from oncelog.broker.metadata.plans.cluster import PRODUCER_IDS_PER_BLOCK, plan_bootstrap
from oncelog.broker.metadata.plans.plan import Plan, compare_written
from oncelog.broker.metadata.store import Put
from oncelog.broker.metadata.strays import enumerated
from oncelog.broker.metadata.topic_names import CLUSTER_METADATA_TOPIC, is_legal_topic_name
from oncelog.protocol.primitives import uuid_text

if TYPE_CHECKING:
    from oncelog.broker.base.clock import Clock
    from oncelog.broker.config.broker_config import BrokerConfig
    from oncelog.broker.log.checkpoints import TopicPartition
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.log.partition_log import PartitionLog
    from oncelog.broker.metadata.identity import Identity
    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.metadata.runtime import MetadataRuntime
    from oncelog.broker.metadata.store import Write

logger = logging.getLogger(__name__)

ADOPTED_PARTITIONS_MAX = 10_000
"""Of one topic. Its missing partitions are created, so a directory's name alone must not ask for more."""
_READ_BYTES = 1 << 20
_PARTITION_COUNTS = {
    "__consumer_offsets": "offsets.topic.num.partitions",
    "__transaction_state": "transaction.state.log.num.partitions",
}


class _Found:
    """What the directories of one topic say."""

    def __init__(self) -> None:
        self.topic_id = b""
        self.partition_count = 0
        self.leader_epochs: dict[int, int] = {}


async def adopt_logs(
    metadata: MetadataRuntime, logs: LogManager, stored: Identity | None, config: BrokerConfig, clock: Clock
) -> None:
    """Does nothing but on the first start. `stored` is the identity that the directory has."""
    if metadata.image.cluster_id:
        return
    broker_id = config.node_id
    cluster_id = (stored.cluster_id if stored else "") or config.initial.cluster_id or uuid_text(random_uuid())
    _ignore_others(logs, is_formatted=stored is not None)
    topics, producer_id_next = _survey(logs, clock.wall_ms())
    _complete_internal_topics(topics, config)
    # Gaps are tolerated in this start only: the next one trusts in what is found now.
    logs.write_checkpoints()

    def plan(image: MetadataImage) -> Plan[None]:
        writes: list[Write] = list(plan_bootstrap(image, cluster_id=cluster_id).writes)
        if producer_id_next:
            writes.append(Put(PRODUCER_IDS, encode_producer_ids(producer_id_next)))
        for name, found in topics.items():
            writes += _topic_writes(name, found, broker_id)
        return Plan(None, writes, compare_written(image, writes))

    await metadata.change(plan)
    for name, found in topics.items():
        # They were opened when nobody knew their topics.
        logs.update_config(name, found.partition_count)
    if topics:
        logger.warning("took over %d topics that were in the data directory", len(topics))


def _ignore_others(logs: LogManager, *, is_formatted: bool) -> None:
    """Leaves alone what is not certain to be Kafka's."""
    found = [key for key in logs.partitions() if key[0] != CLUSTER_METADATA_TOPIC]
    if is_formatted:
        reason = f"a topic has a legal name and at most {ADOPTED_PARTITIONS_MAX} partitions"
        others = [key for key in found if not _is_adoptable(key)]
    else:
        reason = f"{logs.root} has no {checkpoints.META_PROPERTIES}, as the data directory of a broker would have"
        others = found
    for topic, index in others:
        logs.ignore(topic, index)
    if others:
        names = [f"{topic}-{index}" for topic, index in others]
        logger.warning("not taken over: %s (%s)", enumerated(names), reason)


def _is_adoptable(key: TopicPartition) -> bool:
    topic, index = key
    return is_legal_topic_name(topic) and index < ADOPTED_PARTITIONS_MAX


def _survey(logs: LogManager, now_ms: int) -> tuple[dict[str, _Found], int]:
    """The topics, and the first producer id that none of their records can have."""
    topics: dict[str, _Found] = {}
    producer_id_max = -1
    for topic, index in logs.partitions():
        if topic == CLUSTER_METADATA_TOPIC:
            continue
        directory = os.path.join(logs.root, f"{topic}-{index}")
        found = topics.setdefault(topic, _Found())
        found.partition_count = index + 1
        found.leader_epochs[index] = -1
        try:
            found.topic_id = found.topic_id or checkpoints.read_partition_metadata(logs.disk, directory) or b""
            # Read before the log drops epochs in which nothing was written, as clients have seen those too.
            epochs = leader_epochs.read(logs.disk, directory) or LeaderEpochs()
            found.leader_epochs[index] = epochs.latest
            log = logs.get(topic, index, now_ms=now_ms)
        except (StorageError, OSError) as error:
            logs.failures[topic, index] = str(error)
            logger.error("%s-%d is taken over, but stays offline: %s", topic, index, error)
            continue
        assert log is not None
        found.leader_epochs[index] = max(epochs.latest, log.epochs.latest)
        producer_id_max = max(producer_id_max, *_producer_ids(log), -1)
    for found in topics.values():
        found.topic_id = found.topic_id or random_uuid()
    blocks = (producer_id_max + PRODUCER_IDS_PER_BLOCK) // PRODUCER_IDS_PER_BLOCK
    return topics, blocks * PRODUCER_IDS_PER_BLOCK


def _complete_internal_topics(topics: dict[str, _Found], config: BrokerConfig) -> None:
    """Where directories are missing they were made on demand, and the last one there need not be the last of all."""
    for name, key in _PARTITION_COUNTS.items():
        found = topics.get(name)
        if found is not None and len(found.leader_epochs) < found.partition_count:
            found.partition_count = max(found.partition_count, config.int(key))


def _topic_writes(name: str, found: _Found, broker_id: int) -> list[Write]:
    configs = {"cleanup.policy": "compact"} if name in INTERNAL_TOPICS else {}
    replicas = [(broker_id,)] * found.partition_count
    writes: list[Write] = [Put(topic_key(name), encode_topic(TopicRecord(found.topic_id, replicas, configs)))]
    for index, epoch in found.leader_epochs.items():
        if epoch >= 0:
            # Taking over is a change of leader, and epochs of a log must not go back.
            state = PartitionState(leader=broker_id, leader_epoch=epoch + 1, isr=(broker_id,), partition_epoch=1)
            writes.append(Put(partition_key(found.topic_id, index), encode_partition(state)))
    return writes


def _producer_ids(log: PartitionLog) -> list[int]:
    """Of the producers that the log remembers and, in the log of transactions, of those that it is about."""
    ids = [entry.producer_id for entry in log.active_producers()]
    if log.topic == "__transaction_state":
        ids += _transactional_ids(log)
    return ids


def _transactional_ids(log: PartitionLog) -> Iterator[int]:
    # Not needed for the start of a broker that has nothing to take over.
    from oncelog.broker.coordinator.record_codec import decode_record, record_types
    from oncelog.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
    from oncelog.protocol.records.batch import iter_headers
    from oncelog.protocol.records.record import iter_records

    types = record_types((TransactionLogKey, TransactionLogValue))
    offset = log.log_start_offset
    while offset < log.end_offset:
        found = log.read(offset, size_bytes_max=_READ_BYTES, end_offset=log.end_offset)
        for position, header in iter_headers(found.records):
            batch = memoryview(found.records)[position : position + header.size_bytes]
            for record in () if header.is_control else iter_records(batch):
                decoded = decode_record(types, record.key or b"", record.value)
                if decoded is not None and isinstance(decoded.value, TransactionLogValue):
                    yield decoded.value.producer_id
                    yield decoded.value.next_producer_id
        offset = found.next_offset
