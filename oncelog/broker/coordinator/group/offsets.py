"""Offsets of groups: committing, fetching, deleting, and their expiration (KIP-211)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

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
from oncelog.broker.coordinator.group.settings import OFFSETS_AT_ONCE, Settings
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


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


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

    def delete_some(self, group_id: str, effects: Effects) -> bool:
        """Whether these are all that the group has."""
        found = list(islice(self._store.partitions(group_id), OFFSETS_AT_ONCE))
        for topic, partition in dict.fromkeys(found):
            effects.write(_tombstone(group_id, topic, partition))
        return len(found) < OFFSETS_AT_ONCE

    def keys(self) -> Iterator[OffsetKey]:
        """Of all offsets, perhaps twice. Offsets may come and go during the iteration."""
        for group_id in self._store.groups():
            for topic, partition in self._store.partitions(group_id):
                yield OffsetKey(group_id, topic, partition)

    def forget(
        self, keys: Sequence[OffsetKey], before: int, is_gone: Callable[[str, bytes], bool], effects: Effects
    ) -> int:
        """Of topics that are gone, unless they were committed at or after the log offset `before`. `is_gone` is asked
        with the name and the id of each topic; the id is zero where it was not noted.

        Returns how many offsets go."""
        count = 0
        for key in dict.fromkeys(keys):
            committed = self._store.get(*key)
            topic_id = ZERO_UUID if committed is None else committed.topic_id
            if is_gone(key.topic, topic_id) and 0 <= self._store.newest_record(*key) < before:
                effects.write(_tombstone(*key))
                count += 1
        return count

    def expiration(self) -> Iterator[tuple[str, OffsetKey | None]]:
        """What `expire_some` has to look at: the offsets of each group, and behind them the group itself."""
        for group in self._groups:
            for topic, partition in self._store.partitions(group.group_id):
                yield group.group_id, OffsetKey(group.group_id, topic, partition)
            yield group.group_id, None

    def expire_some(self, left: Iterator[tuple[str, OffsetKey | None]], effects: Effects) -> bool:
        """Whether that was all. Also deletes the empty groups that have no offsets left (KIP-211)."""
        looked_at = list(islice(left, OFFSETS_AT_ONCE))
        gone: Counter[str] = Counter()
        for group_id, key in dict.fromkeys(looked_at):
            group = self._groups.get(group_id)
            if group is None:
                continue
            if key is not None:
                if self._is_to_expire(group, key, effects.now):
                    effects.write(_tombstone(*key))
                    gone[group_id] += 1
            elif (
                group.is_empty
                and not self._store.has_open_transaction(group_id)
                and self._store.count(group_id) == gone[group_id]
            ):
                effects.write(*group.tombstones())
        return len(looked_at) < OFFSETS_AT_ONCE

    def _is_to_expire(self, group: Group, key: OffsetKey, now: Now) -> bool:
        committed = self._store.get(*key)
        return (
            committed is not None
            and self._has_expired(group, committed, now)
            and not group.is_subscribed_to(key.topic)
            and not self._store.is_pending(*key)
        )

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
