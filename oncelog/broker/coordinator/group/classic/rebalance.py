"""The rebalance of a classic group: who is in the next generation, and when it begins.

A rebalance is prepared when a member comes, changes or goes. It then waits until all members have joined again,
at most for the longest of their rebalance timeouts; dynamic members that have not are removed, static ones stay,
since they may come back with their instance id. The first rebalance of an empty group waits a little in any case,
and longer as long as members arrive, because they are usually started together.
"""

from __future__ import annotations

import logging

from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.classic.member import ClassicMember
from oncelog.broker.coordinator.group.classic.states import ClassicState
from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from oncelog.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

SESSION_TIMER = "classic-session"
JOIN_TIMER = "classic-join"
SYNC_TIMER = "classic-sync"

Key = tuple[str, ...]


def session_timer(group: ClassicGroup, member_id: str) -> Key:
    return SESSION_TIMER, group.group_id, member_id


def join_timer(group: ClassicGroup) -> Key:
    return JOIN_TIMER, group.group_id


def sync_timer(group: ClassicGroup) -> Key:
    return SYNC_TIMER, group.group_id


def join_token(group: ClassicGroup, member_id: str) -> Key:
    return "join", group.group_id, member_id


def sync_token(group: ClassicGroup, member_id: str) -> Key:
    return "sync", group.group_id, member_id


def refresh_session(group: ClassicGroup, member: ClassicMember, effects: Effects) -> None:
    effects.set_timer(session_timer(group, member.member_id), member.session_timeout_ms)


# -- answers -------------------------------------------------------------------------------------------------


def join_refusal(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)


def joined(
    group: ClassicGroup, member_id: str, *, leader_id: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The generation as a member is told of it; only the leader learns of the other members."""
    leader_id = leader_id or group.leader_id or ""
    members = []
    if member_id == leader_id:
        assert group.protocol is not None
        members = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols[group.protocol],
            )
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader_id,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def complete_join_with(group: ClassicGroup, member_id: str, reply: JoinGroupResponse, effects: Effects) -> None:
    if member_id in group.awaiting_join:
        group.awaiting_join.remove(member_id)
        effects.complete(join_token(group, member_id), reply)


def complete_sync_with(group: ClassicGroup, member_id: str, reply: SyncGroupResponse, effects: Effects) -> None:
    if member_id in group.awaiting_sync:
        group.awaiting_sync.remove(member_id)
        effects.complete(sync_token(group, member_id), reply)


# -- the phases ----------------------------------------------------------------------------------------------


def rebalance_or_complete(group: ClassicGroup, settings: GroupSettings, effects: Effects) -> None:
    """Membership has changed: begin a rebalance, or go on with the one that runs if that is now possible."""
    if group.can_rebalance:
        prepare(group, settings, effects)
    else:
        maybe_complete(group, effects)


def prepare(group: ClassicGroup, settings: GroupSettings, effects: Effects) -> None:
    if group.state is ClassicState.COMPLETING_REBALANCE:
        _turn_away_syncs(group, effects)
    group.pending_sync.clear()
    effects.cancel_timer(sync_timer(group))
    is_initial = group.is_empty
    group.transition_to(ClassicState.PREPARING_REBALANCE, effects.now)
    if is_initial:
        delay_ms = settings.initial_rebalance_delay_ms
        _delay_initial(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), effects)
    elif group.has_all_joined:
        complete(group, effects)
    else:
        effects.set_timer(join_timer(group), group.rebalance_timeout_ms)


def maybe_complete(group: ClassicGroup, effects: Effects) -> None:
    """An initial rebalance is left to its timer."""
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and group.previous_state is not ClassicState.EMPTY
        and group.has_all_joined
    ):
        complete(group, effects)


def join_time_over(group: ClassicGroup, settings: GroupSettings, effects: Effects) -> None:
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    if group.initial_delay is not None and group.new_member_added:
        delay_ms, remaining_ms = group.initial_delay
        if remaining_ms:
            delay_next_ms = min(settings.initial_rebalance_delay_ms, remaining_ms)
            _delay_initial(group, delay_next_ms, max(remaining_ms - delay_ms, 0), effects)
            return
    complete(group, effects)


def complete(group: ClassicGroup, effects: Effects) -> None:
    """The next generation has the members who have joined, and the static ones who may come back."""
    effects.cancel_timer(join_timer(group))
    for member in list(group.members.values()):
        if member.member_id not in group.awaiting_join and member.instance_id is None:
            group.remove(member.member_id)
            effects.cancel_timer(session_timer(group, member.member_id))
    if group.members and not group.elect_joined_leader():
        # Only static members, none of whom is here: their sessions decide.
        effects.set_timer(join_timer(group), group.rebalance_timeout_ms)
        return
    group.initial_delay = None
    group.begin_generation(effects.now)
    if group.is_empty:
        effects.write(group.record({}, effects.now))
        return
    for member in group.members.values():
        complete_join_with(group, member.member_id, joined(group, member.member_id), effects)
        refresh_session(group, member, effects)
        member.is_new = False
    group.pending_sync = set(group.members)
    effects.set_timer(sync_timer(group), group.rebalance_timeout_ms)
    logger.info("group %s: generation %d has %d members", group.group_id, group.generation, len(group.members))


def remove_member(group: ClassicGroup, member: ClassicMember, effects: Effects) -> None:
    """A request of its own that waits is told that the id is void, so that its client joins anew."""
    complete_join_with(group, member.member_id, join_refusal(ErrorCode.UNKNOWN_MEMBER_ID), effects)
    unknown = SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    complete_sync_with(group, member.member_id, unknown, effects)
    effects.cancel_timer(session_timer(group, member.member_id))
    group.remove(member.member_id)


def session_over(group: ClassicGroup, member_id: str, settings: GroupSettings, effects: Effects) -> None:
    if member_id in group.pending_members:
        group.remove(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
            complete(group, effects)
        return
    member = group.members.get(member_id)
    if member is None or group.is_excused(member):
        return
    logger.info("group %s: the session of %s has expired", group.group_id, member_id)
    remove_member(group, member, effects)
    if group.can_rebalance:
        prepare(group, settings, effects)
    elif group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
        complete(group, effects)


def sync_time_over(group: ClassicGroup, settings: GroupSettings, effects: Effects) -> None:
    """Members of the generation that never fetched their assignment are gone."""
    if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) or not group.pending_sync:
        return
    for member_id in list(group.pending_sync):
        group.remove(member_id)
        effects.cancel_timer(session_timer(group, member_id))
    prepare(group, settings, effects)


def _delay_initial(group: ClassicGroup, delay_ms: int, remaining_ms: int, effects: Effects) -> None:
    group.initial_delay = (delay_ms, remaining_ms)
    group.new_member_added = False
    effects.set_timer(join_timer(group), delay_ms)


def _turn_away_syncs(group: ClassicGroup, effects: Effects) -> None:
    for member_id in list(group.awaiting_sync):
        refusal = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        complete_sync_with(group, member_id, refusal, effects)
        refresh_session(group, group.members[member_id], effects)
