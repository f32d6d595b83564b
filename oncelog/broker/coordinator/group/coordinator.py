"""The coordinator of one partition of `__consumer_offsets`: its groups, of whatever protocol, and their offsets.

This is the facade that requests come to; what they mean is decided in its parts:

    classic/      classic groups
    consumer/     consumer groups, with the assignors
    offsets.py    committed and pending offsets

A part says which records it replays and which kinds of timers are its own; a timer's key is a tuple that begins
with its kind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.contract import CoordinatorRecord, ReplayContext, Result
from oncelog.broker.coordinator.effects import BatchLimit, Effects, no_limit
from oncelog.broker.coordinator.group.classic.classic_groups import ClassicGroups
from oncelog.broker.coordinator.group.common import Caller, Committer, Group, Groups, Replay, TimerHandler
from oncelog.broker.coordinator.group.consumer.consumer_groups import ConsumerGroups
from oncelog.broker.coordinator.group.consumer.replay import RECORD_PAIRS as CONSUMER_RECORD_PAIRS
from oncelog.broker.coordinator.group.offsets import FetchedTopic, OffsetEntry, OffsetKey, Offsets, TopicSelection
from oncelog.broker.coordinator.group.settings import Settings
from oncelog.broker.coordinator.record_codec import RecordTypes, decode_record, record_types
from oncelog.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from oncelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from oncelog.protocol.messages.delete_groups import DeletableGroupResult
from oncelog.protocol.messages.describe_groups import DescribedGroup
from oncelog.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from oncelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from oncelog.protocol.messages.list_groups import ListedGroup
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

RECORD_TYPES: RecordTypes = record_types(
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    *CONSUMER_RECORD_PAIRS,
)

EXPIRATION_TIMER = ("offsets-expiration",)


class GroupCoordinator:
    def __init__(
        self,
        settings: Settings,
        image: Callable[[], MetadataImage] = lambda: EMPTY_IMAGE,
        batch_bytes_max: BatchLimit = no_limit,
    ) -> None:
        self._settings = settings
        self._batch_bytes_max = batch_bytes_max
        self._groups = Groups()
        self._offsets = Offsets(self._groups, settings)
        self._expiration: Iterator[tuple[str, OffsetKey | None]] | None = None
        """What the round of expiration that is under way has not looked at yet."""
        self._half_deleted: set[str] = set()
        """Groups of which DeleteGroups has deleted some offsets, and will delete the others in turns to come."""
        self._classic = ClassicGroups(self._groups, settings, batch_bytes_max)
        self._consumer = ConsumerGroups(self._groups, settings, image, batch_bytes_max)
        self._replays: dict[type, Replay] = {
            **self._offsets.replays(),
            **self._classic.replays(),
            **self._consumer.replays(),
        }
        self._timers: dict[str, TimerHandler] = {
            EXPIRATION_TIMER[0]: self._expire_offsets,
            **self._classic.timers(),
            **self._consumer.timers(),
        }

    # -- the contract ----------------------------------------------------------------------------------------

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode_record(RECORD_TYPES, key, value)

    def replay(self, record: CoordinatorRecord, context: ReplayContext) -> None:
        self._replays[type(record.key)](record.key, record.value, context)

    def replay_marker(self, producer_id: int, _: int, committed: bool) -> Result[None]:
        self._offsets.end_transaction(producer_id, committed)
        return Result(None)

    def on_loaded(self, now: Now) -> Result[None]:
        effects = self._effects(now)
        self._classic.on_loaded(effects)
        self._consumer.on_loaded(effects)
        effects.set_timer(EXPIRATION_TIMER, self._settings().offsets_retention_check_interval_ms)
        return effects.result()

    def on_timer(self, key: Hashable, now: Now) -> Result[None]:
        assert isinstance(key, tuple)
        kind, *rest = key
        return self._timers[kind](now, *rest)

    def on_unloaded(self) -> None:
        """Whoever is parked is told by the runtime; there is nothing else to let go of."""

    # -- the classic protocol --------------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, caller: Caller, now: Now) -> Result[JoinGroupResponse]:
        self._check_whole(request.group_id)
        effects = self._effects(now)
        group = self._consumer.find(request.group_id)
        if group is None or (group.is_empty and not request.member_id):
            return self._classic.join(request, caller, effects)
        return self._consumer.join(group, request, caller, effects)

    def sync(self, request: SyncGroupRequest, now: Now) -> Result[SyncGroupResponse]:
        group = self._consumer.find(request.group_id)
        if group is None:
            return self._classic.sync(request, self._effects(now))
        return self._consumer.sync(group, request, self._effects(now))

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> Result[HeartbeatResponse]:
        group = self._consumer.find(request.group_id)
        if group is None:
            return self._classic.heartbeat(request, self._effects(now))
        return self._consumer.classic_heartbeat(group, request, self._effects(now))

    def leave(self, group_id: str, members: Sequence[MemberIdentity], now: Now) -> Result[LeaveGroupResponse]:
        group = self._consumer.find(group_id)
        if group is None:
            return self._classic.leave(group_id, members, self._effects(now))
        return self._consumer.leave(group, members, self._effects(now))

    # -- the consumer protocol -------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: Now
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        self._check_whole(request.group_id)
        return self._consumer.heartbeat(request, caller, self._effects(now))

    def describe_consumer(self, group_id: str, now: Now) -> Result[DescribedConsumerGroup]:
        _check_name(group_id)
        return self._effects(now).result(self._consumer.describe(group_id))

    # -- groups of any kind ----------------------------------------------------------------------------------

    def list_groups(self, states: frozenset[str], types: frozenset[str]) -> list[ListedGroup]:
        """Those whose state and type are in the filters, which are in lower case; an empty one lets all pass."""
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type.value,
            )
            for group in self._groups
            if (not states or group.state_name.lower() in states) and (not types or group.type in types)
        ]

    def describe_classic(self, group_id: str, now: Now) -> Result[DescribedGroup]:
        return self._effects(now).result(self._classic.describe(group_id))

    def delete_group(self, group_id: str, now: Now) -> Result[DeletableGroupResult | None]:
        """No reply means that the group has more offsets than are deleted at once: ask again.

        Until it is gone, nobody else may use it. If the broker dies in between, it has lost some of its offsets, which
        its client was never told to be done: it has to ask again."""
        effects = self._effects(now, divisible=True)
        self._half_deleted.discard(group_id)
        group = self._existing(group_id)
        group.check_delete()
        if not self._offsets.delete_some(group_id, effects):
            self._half_deleted.add(group_id)
            return effects.result(None)
        effects.write(*group.tombstones())
        logger.info("group %s is deleted", group_id)
        return effects.result(DeletableGroupResult(group_id=group_id))

    # -- offsets ---------------------------------------------------------------------------------------------

    def commit_offsets(
        self, committer: Committer, entries: Sequence[OffsetEntry], now: Now, *, retention_ms: int = -1
    ) -> Result[list[ErrorCode]]:
        """One code for each entry, in their order."""
        self._check_whole(committer.group_id)
        effects = self._effects(now, divisible=True)
        codes = self._offsets.commit(committer, entries, effects, retention_ms=retention_ms)
        self._classic.committed(committer, effects)
        return effects.result(codes)

    def commit_transactional_offsets(
        self, committer: Committer, entries: Sequence[OffsetEntry], now: Now
    ) -> Result[list[ErrorCode]]:
        """To be run as part of the producer's transaction: the offsets are pending until its marker."""
        self._check_whole(committer.group_id)
        effects = self._effects(now, divisible=True)
        return effects.result(self._offsets.commit_transactional(committer, entries, effects))

    def fetch_offsets(
        self, reader: Committer, topics: Sequence[TopicSelection] | None, now: Now, *, require_stable: bool
    ) -> Result[list[FetchedTopic]]:
        self._check_whole(reader.group_id)
        return self._effects(now).result(self._offsets.fetch(reader, topics, require_stable=require_stable))

    def committed_partitions(self, group_id: str) -> Result[list[TopicSelection]]:
        """Those that have an offset, to be fetched in slices."""
        return Result(self._offsets.committed_partitions(group_id))

    def delete_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]], now: Now) -> Result[list[ErrorCode]]:
        """One code for each partition, in their order (KIP-496)."""
        _check_name(group_id)
        effects = self._effects(now, divisible=True)
        return effects.result(self._offsets.delete(self._existing(group_id), partitions, effects))

    def offset_keys(self) -> Iterator[OffsetKey]:
        """Of all offsets, to be given to `forget_offsets` in slices."""
        return self._offsets.keys()

    def forget_offsets(
        self, keys: Sequence[OffsetKey], before: int, is_gone: Callable[[str, bytes], bool], now: Now
    ) -> Result[int]:
        """Those of topics that are gone, if they were committed below the log offset `before`; how many went."""
        effects = self._effects(now, divisible=True)
        return effects.result(self._offsets.forget(keys, before, is_gone, effects))

    def _expire_offsets(self, now: Now) -> Result[None]:
        """A bounded number of them; the others as soon as the event loop has served others."""
        effects = self._effects(now, divisible=True)
        if self._expiration is None:
            self._expiration = self._offsets.expiration()
        pause_ms = 0
        if self._offsets.expire_some(self._expiration, effects):
            self._expiration = None
            pause_ms = self._settings().offsets_retention_check_interval_ms
        effects.set_timer(EXPIRATION_TIMER, pause_ms)
        return effects.result()

    def _effects(self, now: Now, *, divisible: bool = False) -> Effects:
        return Effects(now, self._batch_bytes_max(), divisible=divisible)

    def _check_whole(self, group_id: str) -> None:
        if group_id in self._half_deleted:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id} is being deleted")

    def _existing(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return group


def _check_name(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group has no name")
