"""LeaveGroup to a classic group: members go, or an administrator removes static ones by instance id."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.classic.rebalance import rebalance_or_complete, remove_member, session_timer
from oncelog.broker.coordinator.group.classic.states import ClassicState
from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.leave_group import MemberIdentity, MemberResponse


def leave(
    group: ClassicGroup, leaving: Sequence[MemberIdentity], settings: GroupSettings, effects: Effects
) -> list[MemberResponse]:
    responses = []
    for identity in leaving:
        try:
            _remove(group, identity, effects)
            code = ErrorCode.NONE
        except KafkaError as error:
            code = error.code
        responses.append(member_response(identity, code))
    if group.state is not ClassicState.EMPTY and any(not response.error_code for response in responses):
        rebalance_or_complete(group, settings, effects)
    return responses


def member_response(identity: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)


def _remove(group: ClassicGroup, identity: MemberIdentity, effects: Effects) -> None:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id in group.pending_members:
        group.remove(member_id)
        effects.cancel_timer(session_timer(group, member_id))
        return
    if not member_id and instance_id is not None:
        # kafka-consumer-groups and KIP-345 remove static members without knowing their ids.
        member_id = group.static_members.get(instance_id, "")
    group.check_member(member_id, instance_id)
    remove_member(group, group.members[member_id], effects)
