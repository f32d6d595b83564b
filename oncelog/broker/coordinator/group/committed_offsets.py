"""The offsets that groups have committed, and those that wait for the end of a transaction. Changed by replay only.

A group's offset in a partition is the one that was committed last, where a transactional commit counts at the
place of its record, not of its marker: a plain commit made in between wins over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from oncelog.broker.coordinator.contract import ReplayContext
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.messages.group_records import OffsetCommitValue
from oncelog.protocol.primitives import ZERO_UUID

NO_EXPIRY = -1
DEFAULT_RETENTION = -1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    retention_ms: int = DEFAULT_RETENTION
    """Given by clients before OffsetCommit 5 only."""
    topic_id: bytes = ZERO_UUID
    record_offset: int = -1
    committed_ms: int = 0
    """When it was committed, in steady time."""

    @staticmethod
    def from_record(value: OffsetCommitValue, context: ReplayContext) -> CommittedOffset:
        retention_ms = DEFAULT_RETENTION
        if value.expire_timestamp != NO_EXPIRY:
            retention_ms = value.expire_timestamp - value.commit_timestamp
        return CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            retention_ms,
            value.topic_id,
            context.offset,
            context.now.steady_at(value.commit_timestamp),
        )


Partitions = dict[int, CommittedOffset]
TopicOffsets = dict[str, Partitions]


class CommittedOffsets:
    def __init__(self) -> None:
        self._groups: dict[str, TopicOffsets] = {}
        self._pending: dict[str, dict[int, TopicOffsets]] = {}
        """By group and producer id."""
        self._pending_groups: dict[int, set[str]] = {}
        """The groups of a producer's open transaction."""

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._groups.get(group_id, {})

    def groups(self) -> list[str]:
        """Those that have any offset, be it a pending one."""
        return list(self._groups.keys() | self._pending.keys())

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._pending

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return any(partition in topics.get(topic, ()) for topics in self._pending.get(group_id, {}).values())

    def partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Those with an offset or a pending one, perhaps twice. Offsets may come and go during the iteration."""
        for topics in [self._groups.get(group_id, {}), *self._pending.get(group_id, {}).values()]:
            for topic in list(topics):
                for partition in list(topics.get(topic, ())):
                    yield topic, partition

    def count(self, group_id: str) -> int:
        """Without the pending ones."""
        return sum(map(len, self.of_group(group_id).values()))

    def newest_record(self, group_id: str, topic: str, partition: int) -> int:
        """The log offset of the newest record of a partition, be it pending; -1 if there is none."""
        stores = [self._groups.get(group_id, {}), *self._pending.get(group_id, {}).values()]
        found = [topics.get(topic, {}).get(partition) for topics in stores]
        return max((committed.record_offset for committed in found if committed is not None), default=-1)

    def put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset

    def put_pending(self, producer_id: int, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        topics = self._pending.setdefault(group_id, {}).setdefault(producer_id, {})
        topics.setdefault(topic, {})[partition] = offset
        self._pending_groups.setdefault(producer_id, set()).add(group_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id)
        if topics is not None:
            _remove(topics, topic, partition)
            if not topics:
                del self._groups[group_id]
        for pending in self._pending.get(group_id, {}).values():
            _remove(pending, topic, partition)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for group_id in self._pending_groups.pop(producer_id, ()):
            open_transactions = self._pending[group_id]
            topics = open_transactions.pop(producer_id)
            if not open_transactions:
                del self._pending[group_id]
            if committed:
                self._materialize(group_id, topics)

    def _materialize(self, group_id: str, topics: TopicOffsets) -> None:
        for topic, partitions in topics.items():
            for partition, offset in partitions.items():
                present = self.get(group_id, topic, partition)
                if present is None or offset.record_offset > present.record_offset:
                    self.put(group_id, topic, partition, offset)


def _remove(topics: TopicOffsets, topic: str, partition: int) -> None:
    partitions = topics.get(topic)
    if partitions is not None:
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
