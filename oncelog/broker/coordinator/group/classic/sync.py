"""SyncGroup to a classic group: the leader hands in the assignments, every member gets its own.

The assignments are written to the log first. When the record is replayed the group is stable, and when it is safe
all who wait get their part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncelog.broker.coordinator.contract import Result
from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.classic.rebalance import (
    complete_sync_with,
    refresh_session,
    sync_timer,
    sync_token,
)
from oncelog.broker.coordinator.group.classic.states import ClassicState
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(group: ClassicGroup, request: SyncGroupRequest, effects: Effects) -> Result[Any]:
    member_id = request.member_id
    group.check_member(member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the group has chosen another protocol")
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    assignments: dict[str, bytes] | None = None
    if group.state is ClassicState.COMPLETING_REBALANCE and member_id == group.leader_id:
        assignments = {assigned.member_id: assigned.assignment for assigned in request.assignments}
        effects.write(group.record(assignments, effects.now))
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        effects.cancel_timer(sync_timer(group))
    if group.state is ClassicState.STABLE:
        return effects.result(_answer(group, group.members[member_id].assignment))
    group.awaiting_sync.add(member_id)
    if assignments is not None:
        _hand_out(group, assignments, effects)
    displaced = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return effects.park(sync_token(group, member_id), displaced)


def _hand_out(group: ClassicGroup, assignments: Mapping[str, bytes], effects: Effects) -> None:
    """A member that the leader forgot gets nothing."""
    for member_id in list(group.awaiting_sync):
        complete_sync_with(group, member_id, _answer(group, assignments.get(member_id, b"")), effects)
        refresh_session(group, group.members[member_id], effects)


def _answer(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


def _differ(given: str | None, own: str | None) -> bool:
    return given is not None and own is not None and given != own
