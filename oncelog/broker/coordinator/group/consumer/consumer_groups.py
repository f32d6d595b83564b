"""The consumer groups of a shard: where requests, timers and records find their group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.contract import Result
from oncelog.broker.coordinator.effects import BatchLimit, Effects
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.classic.leave import member_response
from oncelog.broker.coordinator.group.classic.rebalance import prepare
from oncelog.broker.coordinator.group.common import Caller, Groups, Replay, TimerHandler
from oncelog.broker.coordinator.group.consumer.classic import ClassicJoin, classic_heartbeat, classic_sync, find_member
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.describe import describe_group
from oncelog.broker.coordinator.group.consumer.heartbeat import (
    check_request,
    check_size,
    find_leaving,
    heartbeat,
    leave_for_a_while,
)
from oncelog.broker.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from oncelog.broker.coordinator.group.consumer.removal import remove_members
from oncelog.broker.coordinator.group.consumer.replay import ConsumerReplay
from oncelog.broker.coordinator.group.consumer.settings import ConsumerSettings, consumer_settings
from oncelog.broker.coordinator.group.consumer.timers import (
    DOWNGRADE_TIMER,
    JOIN_TIMER,
    REBALANCE_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
    rebalance_timer,
    session_timer,
)
from oncelog.broker.coordinator.group.consumer.topics import TopicMetadata
from oncelog.broker.coordinator.group.consumer.upgrade import Downgrade, can_downgrade, upgrade
from oncelog.broker.coordinator.group.settings import Settings
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.consumer_group_describe import DescribedGroup
from oncelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from oncelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage

logger = logging.getLogger(__name__)


class ConsumerGroups:
    def __init__(
        self, groups: Groups, settings: Settings, image: Callable[[], MetadataImage], batch_bytes_max: BatchLimit
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._batch_bytes_max = batch_bytes_max
        self._topics = TopicMetadata(image)
        self._replay = ConsumerReplay(groups)

    def replays(self) -> dict[type, Replay]:
        return self._replay.replays()

    def timers(self) -> dict[str, TimerHandler]:
        return {
            SESSION_TIMER: self._removing("its session has expired"),
            REBALANCE_TIMER: self._removing("it did not give up its partitions in time", self._is_revoking),
            JOIN_TIMER: self._removing("it did not join again in time"),
            SYNC_TIMER: self._removing("it did not fetch its assignment in time"),
            DOWNGRADE_TIMER: self._downgraded,
        }

    def on_loaded(self, effects: Effects) -> None:
        """Members have a whole session to be heard of, and to give up what they have to."""
        for group in self._groups:
            if isinstance(group, ConsumerGroup):
                timeout_ms = self._settings_of(group.group_id).session_timeout_ms
                for member in group.members.values():
                    own_timeout_ms = member.classic.session_timeout_ms if member.classic else timeout_ms
                    effects.set_timer(session_timer(group.group_id, member.member_id), own_timeout_ms)
                    if member.classic is None and self._is_revoking(member):
                        timer = rebalance_timer(group.group_id, member.member_id)
                        effects.set_timer(timer, member.rebalance_timeout_ms)

    def find(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    # -- the consumer protocol -------------------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, effects: Effects
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        check_request(request, caller.version, self._settings().consumer_assignors)
        check_size(request, effects.batch_bytes_max)
        if request.member_epoch < JOINING_EPOCH:
            return self._leave(request, effects)
        group = self._group_for(request, effects)
        if request.member_id not in group.members and len(group.members) >= self._settings().consumer_group_size_max:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members")
        settings = self._settings_of(group.group_id)
        return effects.result(heartbeat(group, request, caller, self._topics, settings, effects))

    def _group_for(self, request: ConsumerGroupHeartbeatRequest, effects: Effects) -> ConsumerGroup:
        """The group, or what it will be when the effects have come about."""
        group_id = request.group_id
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch != JOINING_EPOCH:
            raise _not_found(group_id, "Consumer group")
        if group is None:
            return ConsumerGroup(group_id)
        assert isinstance(group, ClassicGroup)
        if group.is_empty:
            effects.write(*group.tombstones())
            return ConsumerGroup(group_id)
        return upgrade(group, self._settings(), self._topics, effects)

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, effects: Effects
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        group = self._existing(request.group_id)
        member = find_leaving(group, request)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            leave_for_a_while(group, member, effects)
        else:
            self._remove(group, [member], effects)
        return effects.result(
            ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
        )

    def describe(self, group_id: str) -> DescribedGroup:
        return describe_group(self._existing(group_id), self._topics, self._settings().consumer_assignors[0])

    # -- the classic protocol --------------------------------------------------------------------------------

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, effects: Effects
    ) -> Result[JoinGroupResponse]:
        if group.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {group.group_id} has no members")
        timeout_ms = request.session_timeout_ms
        if not self._settings().allow_session_of(timeout_ms):
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT, f"a session of {timeout_ms} ms is not allowed")
        settings = self._settings_of(group.group_id)
        join = ClassicJoin(group, request, caller, self._topics, self._settings(), settings, effects)
        return effects.result(join.run())

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, effects: Effects) -> Result[SyncGroupResponse]:
        return effects.result(classic_sync(group, request, self._topics, effects))

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, effects: Effects
    ) -> Result[HeartbeatResponse]:
        return effects.result(classic_heartbeat(group, request, effects))

    def leave(
        self, group: ConsumerGroup, leaving: Sequence[MemberIdentity], effects: Effects
    ) -> Result[LeaveGroupResponse]:
        members: dict[str, ConsumerMember] = {}
        responses = []
        for identity in leaving:
            code = ErrorCode.NONE
            try:
                member = self._find_identity(group, identity)
                members[member.member_id] = member
            except KafkaError as error:
                code = error.code
            responses.append(member_response(identity, code))
        if members:
            self._remove(group, list(members.values()), effects)
        return effects.result(LeaveGroupResponse(members=responses))

    def _find_identity(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
        """An administrator removes static members without knowing their ids."""
        static = group.static_member(identity.group_instance_id)
        if static is not None and not identity.member_id:
            return static
        return find_member(group, identity.member_id, identity.group_instance_id)

    # -- timers ----------------------------------------------------------------------------------------------

    def _removing(self, reason: str, applies: Callable[[ConsumerMember], bool] | None = None) -> TimerHandler:
        def handle(now: Now, group_id: str, member_id: str) -> Result[None]:
            effects = Effects(now, self._batch_bytes_max())
            group = self.find(group_id)
            member = group.members.get(member_id) if group else None
            if group and member and (applies is None or applies(member)):
                logger.info("group %s: %s is removed: %s", group_id, member_id, reason)
                self._remove(group, [member], effects)
            return effects.result()

        return handle

    @staticmethod
    def _is_revoking(member: ConsumerMember) -> bool:
        return member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch != STATIC_LEAVING_EPOCH

    def _downgraded(self, now: Now, group_id: str) -> Result[None]:
        effects = Effects(now, self._batch_bytes_max())
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and group.members and group.can_rebalance:
            prepare(group, self._settings(), effects)
        return effects.result()

    # -- inside ----------------------------------------------------------------------------------------------

    def _remove(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], effects: Effects) -> None:
        if can_downgrade(group, leaving, self._settings()):
            downgraded = Downgrade(group, leaving, None, self._topics, effects.now)
            if effects.fits(downgraded.records):
                downgraded.carry_out(effects)
                return
            logger.warning("group %s stays a consumer group: its record as a classic one is too large", group.group_id)
        remove_members(group, leaving, self._topics, effects)

    def _existing(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if group is None:
            raise _not_found(group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def _settings_of(self, group_id: str) -> ConsumerSettings:
        return consumer_settings(self._settings(), self._topics.image.group_configs.get(group_id, {}))


def _not_found(group_id: str, kind: str = "Group") -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
