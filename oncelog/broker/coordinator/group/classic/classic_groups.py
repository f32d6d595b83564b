"""The classic groups of a shard: where requests, timers and records find their group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.contract import ReplayContext, Result
from oncelog.broker.coordinator.effects import BatchLimit, Effects
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.classic.join import Join
from oncelog.broker.coordinator.group.classic.leave import leave, member_response
from oncelog.broker.coordinator.group.classic.rebalance import (
    JOIN_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
    join_refusal,
    join_time_over,
    prepare,
    refresh_session,
    session_over,
    sync_time_over,
)
from oncelog.broker.coordinator.group.classic.states import HEARTBEAT_ANSWERS, ClassicState
from oncelog.broker.coordinator.group.classic.sync import sync
from oncelog.broker.coordinator.group.common import Caller, Committer, Groups, Replay, TimerHandler
from oncelog.broker.coordinator.group.settings import Settings
from oncelog.protocol.errors import MESSAGE_LENGTH_MAX, ErrorCode, KafkaError
from oncelog.protocol.messages.describe_groups import DescribedGroup
from oncelog.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue
from oncelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.protocol.messages.join_group import JoinGroupRequest
from oncelog.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from oncelog.protocol.messages.sync_group import SyncGroupRequest


class ClassicGroups:
    def __init__(self, groups: Groups, settings: Settings, batch_bytes_max: BatchLimit) -> None:
        self._groups = groups
        self._settings = settings
        self._batch_bytes_max = batch_bytes_max

    def replays(self) -> dict[type, Replay]:
        return {GroupMetadataKey: self._replay}

    def timers(self) -> dict[str, TimerHandler]:
        return {
            SESSION_TIMER: self._timed(session_over),
            JOIN_TIMER: self._timed(join_time_over),
            SYNC_TIMER: self._timed(sync_time_over),
        }

    def on_loaded(self, effects: Effects) -> None:
        """Members have a whole session to be heard of. A group above a lowered limit rebalances, so that it
        shrinks."""
        for group in self._groups:
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    refresh_session(group, member, effects)
                if len(group.members) > self._settings().group_size_max:
                    prepare(group, self._settings(), effects)

    # -- requests --------------------------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, caller: Caller, effects: Effects) -> Result[Any]:
        refusal = self._join_refusal(request)
        if refusal is not None:
            return effects.result(join_refusal(refusal, request.member_id))
        group = self._find(request.group_id)
        if group is not None:
            return Join(group, request, caller, self._settings(), effects).run()
        if request.member_id:
            return effects.result(join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        return self._join_new_group(request, caller, effects)

    def _join_refusal(self, request: JoinGroupRequest) -> ErrorCode | None:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not self._settings().allow_session_of(request.session_timeout_ms):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return None

    def _join_new_group(self, request: JoinGroupRequest, caller: Caller, effects: Effects) -> Result[Any]:
        """A group is there as soon as it has given out an id, though nobody is in it yet, and the log says so. An
        empty group of another type gives it its name, and stays if the join is refused."""
        former = self._groups.get(request.group_id)
        group = ClassicGroup(request.group_id, effects.now)
        if former is not None:
            effects.write(*former.tombstones())
        effects.write(group.first_record(effects.now))
        result = Join(group, request, caller, self._settings(), effects).run()
        if not (group.pending_members or group.members):
            return Result(result.reply)
        self._groups.put(group)
        return result

    def sync(self, request: SyncGroupRequest, effects: Effects) -> Result[Any]:
        return sync(self._member_group(request.group_id), request, effects)

    def heartbeat(self, request: HeartbeatRequest, effects: Effects) -> Result[HeartbeatResponse]:
        group = self._member_group(request.group_id)
        group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        refresh_session(group, group.members[request.member_id], effects)
        return effects.result(HeartbeatResponse(error_code=HEARTBEAT_ANSWERS[group.state]))

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity], effects: Effects) -> Result[LeaveGroupResponse]:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._find(group_id)
        if group is None:
            members = [member_response(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in leaving]
        else:
            members = leave(group, leaving, self._settings(), effects)
        return effects.result(LeaveGroupResponse(members=members))

    def describe(self, group_id: str) -> DescribedGroup:
        """A group that is not here is dead, as clients before KIP-1043 expect it; the code is for later ones."""
        group = self._find(group_id)
        if group is None:
            reason = "is not a classic group" if self._groups.get(group_id) else "not found"
            return DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {reason}."[:MESSAGE_LENGTH_MAX],
                group_id=group_id,
                group_state=ClassicState.DEAD,
            )
        protocol = group.protocol if group.state is ClassicState.STABLE else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state,
            protocol_type=group.protocol_type,
            protocol_data=protocol or "",
            members=[member.describe(protocol) for member in group.members.values()],
        )

    def committed(self, committer: Committer, effects: Effects) -> None:
        """A member that commits offsets is alive."""
        group = self._find(committer.group_id)
        member = group.members.get(committer.member_id) if group else None
        if group and member and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            refresh_session(group, member, effects)

    # -- records and timers ----------------------------------------------------------------------------------

    def _replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None, context: ReplayContext) -> None:
        group = self._find(key.group)
        if value is None:
            if group is not None:
                self._groups.remove(key.group)
            return
        if group is None:
            group = ClassicGroup(key.group)
            self._groups.put(group)
        group.install(value, context.now)

    def _timed(self, over: Callable[..., None]) -> TimerHandler:
        def handle(now: Now, group_id: str, *rest: str) -> Result[None]:
            effects = Effects(now, self._batch_bytes_max())
            group = self._find(group_id)
            if group is not None:
                over(group, *rest, self._settings(), effects)
            return effects.result()

        return handle

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _member_group(self, group_id: str) -> ClassicGroup:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id}")
        return group
