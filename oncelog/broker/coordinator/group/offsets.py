"""Offsets of groups: committing, fetching, deleting, and their expiration (KIP-211)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.contract import CoordinatorRecord, ReplayContext
from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.committed_offsets import (
    DEFAULT_RETENTION,
    NO_EXPIRY,
    CommittedOffset,
    CommittedOffsets,
)
from oncelog.broker.coordinator.group.common import Committer, Group, Groups, Replay
from oncelog.broker.coordinator.group.settings import Settings
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from oncelog.protocol.primitives import ZERO_UUID

GROUP_ID_NOT_FOUND_FROM = 9
_VALUE_VERSION = 4
_VALUE_VERSION_WITH_EXPIRY = 1


class OffsetEntry(NamedTuple):
    """What a client commits for a partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: bytes = ZERO_UUID


class TopicSelection(NamedTuple):
    """Partitions whose offsets are asked for; by a client that knows topic ids, with one."""

    topic: str
    partitions: Sequence[int]
    topic_id: bytes = ZERO_UUID


class FetchedOffset(NamedTuple):
    partition: int
    committed: CommittedOffset | None
    code: ErrorCode = ErrorCode.NONE


class FetchedTopic(NamedTuple):
    topic: str
    offsets: list[FetchedOffset]


class Offsets:
    def __init__(self, groups: Groups, settings: Settings) -> None:
        self._groups = groups
        self._settings = settings
        self._store = CommittedOffsets()

    def replays(self) -> dict[type, Replay]:
        return {OffsetCommitKey: self._replay}

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self._store.end_transaction(producer_id, committed)

    # -- committing ------------------------------------------------------------------------------------------

    def commit(
        self, committer: Committer, entries: Sequence[OffsetEntry], effects: Effects, *, retention_ms: int
    ) -> list[ErrorCode]:
        group = self._groups.get(committer.group_id)
        if group is not None:
            group.check_offset_commit(committer, _partitions(entries), transactional=False)
        elif committer.generation >= 0:
            is_new = committer.version >= GROUP_ID_NOT_FOUND_FROM
            code = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
            raise KafkaError(code, f"there is no group {committer.group_id}")
        expire_ms = NO_EXPIRY if retention_ms == DEFAULT_RETENTION else effects.now.wall_ms + retention_ms
        return self._write(committer.group_id, entries, expire_ms, effects)

    def commit_transactional(
        self, committer: Committer, entries: Sequence[OffsetEntry], effects: Effects
    ) -> list[ErrorCode]:
        """Refuses a producer whose consumer is no longer a member of the current generation (KIP-447)."""
        group = self._groups.get(committer.group_id)
        if group is not None:
            try:
                group.check_offset_commit(committer, _partitions(entries), transactional=True)
            except KafkaError as error:
                if error.code == ErrorCode.STALE_MEMBER_EPOCH:
                    raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from None
                raise
        elif committer.generation >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"there is no group {committer.group_id}")
        return self._write(committer.group_id, entries, NO_EXPIRY, effects)

    def _write(
        self, group_id: str, entries: Sequence[OffsetEntry], expire_ms: int, effects: Effects
    ) -> list[ErrorCode]:
        codes = []
        for entry in entries:
            if len(entry.metadata or "") > self._settings().offset_metadata_size_max:
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            else:
                effects.write(_record(group_id, entry, effects.now.wall_ms, expire_ms))
                codes.append(ErrorCode.NONE)
        return codes

    # -- fetching --------------------------------------------------------------------------------------------

    def fetch(
        self, reader: Committer, topics: Sequence[TopicSelection] | None, *, require_stable: bool
    ) -> list[FetchedTopic]:
        """No topics means all that have offsets. A group that does not exist has none."""
        group = self._groups.get(reader.group_id)
        if group is not None:
            group.check_offset_fetch(reader.member_id, reader.generation)
        if topics is None:
            topics = self.committed_partitions(reader.group_id)
        return [
            FetchedTopic(
                selection.topic,
                [
                    self._fetched(reader.group_id, selection, partition, require_stable)
                    for partition in selection.partitions
                ],
            )
            for selection in topics
        ]

    def committed_partitions(self, group_id: str) -> list[TopicSelection]:
        stored = self._store.of_group(group_id)
        return [TopicSelection(topic, list(partitions)) for topic, partitions in stored.items()]

    def _fetched(self, group_id: str, selection: TopicSelection, partition: int, require_stable: bool) -> FetchedOffset:
        topic = selection.topic
        if require_stable and self._store.is_pending(group_id, topic, partition):
            return FetchedOffset(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self._store.get(group_id, topic, partition)
        if committed is not None and _is_of_another_topic(committed, selection.topic_id):
            committed = None
        return FetchedOffset(partition, committed)

    # -- deleting --------------------------------------------------------------------------------------------

    def delete(self, group: Group, partitions: Sequence[tuple[str, int]], effects: Effects) -> list[ErrorCode]:
        group.check_offset_delete()
        codes = []
        for topic, partition in partitions:
            if group.is_subscribed_to(topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if self._store.get(group.group_id, topic, partition) or self._store.is_pending(
                group.group_id, topic, partition
            ):
                effects.write(_tombstone(group.group_id, topic, partition))
        return codes

    def delete_all(self, group_id: str, effects: Effects) -> None:
        for topic, partition in self._store.partitions(group_id):
            effects.write(_tombstone(group_id, topic, partition))

    def forget_topics(self, is_gone: Callable[[str, bytes], bool], effects: Effects) -> int:
        """`is_gone` is asked with the name and the id of each topic; the id is zero where it was not noted.

        Returns how many offsets go."""
        count = 0
        for group_id in self._store.groups():
            for topic, partition in self._store.partitions(group_id):
                committed = self._store.get(group_id, topic, partition)
                if is_gone(topic, ZERO_UUID if committed is None else committed.topic_id):
                    effects.write(_tombstone(group_id, topic, partition))
                    count += 1
        return count

    def expire(self, group: Group, effects: Effects) -> bool:
        """Whether the group has no offsets any more, once the effects have come about."""
        group_id = group.group_id
        all_expired = not self._store.has_open_transaction(group_id)
        for topic, partitions in self._store.of_group(group_id).items():
            subscribed = group.is_subscribed_to(topic)
            for partition, committed in partitions.items():
                if (
                    not subscribed
                    and self._has_expired(group, committed, effects.now)
                    and not self._store.is_pending(group_id, topic, partition)
                ):
                    effects.write(_tombstone(group_id, topic, partition))
                else:
                    all_expired = False
        return all_expired

    def _has_expired(self, group: Group, committed: CommittedOffset, now: Now) -> bool:
        start_ms = group.retention_start_ms(committed.committed_ms)
        if start_ms is None:
            return False
        if committed.retention_ms != DEFAULT_RETENTION:
            return now.steady_ms - committed.committed_ms >= committed.retention_ms
        return now.steady_ms - start_ms >= self._settings().offsets_retention_ms

    # -- records ---------------------------------------------------------------------------------------------

    def _replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, context: ReplayContext) -> None:
        if value is None:
            self._store.remove(key.group, key.topic, key.partition)
            return
        if self._groups.get(key.group) is None:
            # Committed by someone who is no member, or the group's own record comes later in the log.
            self._groups.put(ClassicGroup(key.group))
        committed = CommittedOffset.from_record(value, context)
        if context.producer_id < 0:
            self._store.put(key.group, key.topic, key.partition, committed)
        else:
            self._store.put_pending(context.producer_id, key.group, key.topic, key.partition, committed)


def _record(group_id: str, entry: OffsetEntry, wall_ms: int, expire_ms: int) -> CoordinatorRecord:
    key = OffsetCommitKey(group=group_id, topic=entry.topic, partition=entry.partition)
    value = OffsetCommitValue(offset=entry.offset, metadata=entry.metadata or "", commit_timestamp=wall_ms)
    if expire_ms != NO_EXPIRY:
        # Only an old version has the expiry, and it has neither of the others.
        value.expire_timestamp = expire_ms
        return CoordinatorRecord(key, value, _VALUE_VERSION_WITH_EXPIRY)
    value.leader_epoch = entry.leader_epoch
    value.topic_id = entry.topic_id
    return CoordinatorRecord(key, value, _VALUE_VERSION)


def _tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def _is_of_another_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """A topic of the same name was there before."""
    return ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def _partitions(entries: Sequence[OffsetEntry]) -> list[tuple[bytes, int]]:
    return [(entry.topic_id, entry.partition) for entry in entries]
