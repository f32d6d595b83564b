"""Groups of the classic protocol."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.dialogues.common import describe_group, near
from conformance.wire.good_requests import D
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


def _sync(group: str, generation: int, member: str, **options: Any) -> Any:
    api = D.sync_group
    return api.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=options.get("instance"),
        protocol_type=options.get("protocol_type"),
        protocol_name=options.get("protocol_name"),
        assignments=[
            api.SyncGroupRequestAssignment(member_id=given, assignment=b"for " + str(index).encode())
            for index, given in enumerate(options.get("given", ()))
        ],
    )


def _join(talk: Talk, request: Any, version: int, label: str) -> Any:
    """Join; from v4 on the first answer gives an id to come back with (KIP-394)."""
    answer = talk.say(request, version, label)
    if answer is not None and answer.error_code == 79:
        request.member_id = answer.member_id
        answer = talk.say(request, version, f"{label} with the id given")
    return answer


def classic_group(talk: Talk, version: int) -> None:
    """One member: join, sync, heartbeat, join again, wrong generations and ids, leave."""
    group = talk.fresh("group")
    sync_version, beat_version = near(ApiKey.SYNC_GROUP, version), near(ApiKey.HEARTBEAT, version)
    leave_version = near(ApiKey.LEAVE_GROUP, version)
    describe_group(talk, group, "describe before")
    joined = _join(talk, state.join_request(group, protocols=("range", "roundrobin")), version, "join")
    member, generation = joined.member_id, joined.generation_id
    describe_group(talk, group, "describe joined")
    beat = partial(D.heartbeat.HeartbeatRequest, group_id=group)
    talk.say(beat(generation_id=generation, member_id=member), beat_version, "heartbeat before sync")
    talk.say(_sync(group, generation + 1, member, given=[member]), sync_version, "sync of another generation")
    talk.say(_sync(group, generation, "nobody", given=[member]), sync_version, "sync of nobody")
    other = _sync(group, generation, member, given=[member], protocol_type="connect", protocol_name="range")
    talk.say(other, sync_version, "sync of another type")
    mine = _sync(group, generation, member, given=[member], protocol_type="consumer", protocol_name="range")
    talk.say(mine, sync_version, "sync")
    talk.say(_sync(group, generation, member), sync_version, "sync again")
    talk.say(beat(generation_id=generation, member_id=member), beat_version, "heartbeat")
    talk.say(beat(generation_id=generation + 1, member_id=member), beat_version, "heartbeat of another generation")
    talk.say(beat(generation_id=generation, member_id="nobody"), beat_version, "heartbeat of nobody")
    describe_group(talk, group, "describe stable")
    talk.say(state.join_request(group, "nobody"), version, "join as nobody")
    talk.say(state.join_request(group, protocols=("other",)), version, "join with another protocol")
    talk.say(state.join_request(group, protocol_type="connect"), version, "join with another type")
    talk.say(D.delete_groups.DeleteGroupsRequest(groups_names=[group]), 2, "delete a group with members")
    again = _join(talk, state.join_request(group, member, protocols=("range", "roundrobin")), version, "join again")
    talk.say(_sync(group, again.generation_id, member, given=[member]), sync_version, "sync the new generation")
    identity = D.leave_group.MemberIdentity
    leave = partial(D.leave_group.LeaveGroupRequest, group_id=group)
    talk.say(leave(member_id="nobody", members=[identity(member_id="nobody")]), leave_version, "leave as nobody")
    talk.say(leave(member_id=member, members=[identity(member_id=member)]), leave_version, "leave")
    talk.say(leave(member_id=member, members=[identity(member_id=member)]), leave_version, "leave again")
    talk.say(beat(generation_id=generation, member_id=member), beat_version, "heartbeat after leaving")
    describe_group(talk, group, "describe empty")
    talk.say(D.delete_groups.DeleteGroupsRequest(groups_names=[group, group]), 2, "delete")
    describe_group(talk, group, "describe dead")


def two_classic_members(talk: Talk, version: int) -> None:
    """Members that wait for each other need connections of their own, so the second meets a group in the middle."""
    group = talk.fresh("group")
    joined = _join(talk, state.join_request(group), version, "first joins")
    second = state.join_request(group)
    if version >= 4:
        talk.say(second, version, "second gets an id")
    talk.say(
        D.leave_group.LeaveGroupRequest(
            group_id=group,
            member_id=joined.member_id,
            members=[D.leave_group.MemberIdentity(member_id=joined.member_id)],
        ),
        near(ApiKey.LEAVE_GROUP, version),
        "first leaves before it synced",
    )
    # Kafka ends the rebalance behind its answer.
    request = D.describe_groups.DescribeGroupsRequest(groups=[group])
    talk.wait_until(lambda: talk.ask(request, 5).groups[0].group_state == "Empty", f"{group} is empty")
    describe_group(talk, group, "describe")
    talk.say(D.offset_fetch.OffsetFetchRequest(group_id=group, topics=None), 7, "offsets of a group without")


def static_member(talk: Talk, version: int) -> None:
    """KIP-345: the same instance comes back and takes its place; the former id is fenced."""
    if version < 5:
        return
    group, request = talk.fresh("group"), partial(state.join_request, instance="i-1")
    sync_version, beat_version = near(ApiKey.SYNC_GROUP, version), near(ApiKey.HEARTBEAT, version)
    first = _join(talk, request(group), version, "join")
    talk.say(
        _sync(group, first.generation_id, first.member_id, given=[first.member_id], instance="i-1"),
        sync_version,
        "sync",
    )
    second = talk.say(request(group), version, "join as a new process")
    if second is not None and second.error_code == 0:
        fenced = {"group_id": group, "generation_id": first.generation_id, "group_instance_id": "i-1"}
        talk.say(
            D.heartbeat.HeartbeatRequest(member_id=first.member_id, **fenced), beat_version, "the former's heartbeat"
        )
        talk.say(D.heartbeat.HeartbeatRequest(member_id=second.member_id, **fenced), beat_version, "the new one's")
        talk.say(
            _sync(group, second.generation_id, second.member_id, instance="i-1"), sync_version, "sync of the new one"
        )
        describe_group(talk, group, "describe")
        talk.say(
            D.leave_group.LeaveGroupRequest(
                group_id=group,
                members=[
                    D.leave_group.MemberIdentity(member_id="", group_instance_id="i-2"),
                    D.leave_group.MemberIdentity(member_id=first.member_id, group_instance_id="i-1"),
                    D.leave_group.MemberIdentity(member_id="", group_instance_id="i-1"),
                ],
            ),
            max(3, near(ApiKey.LEAVE_GROUP, version)),
            "removed by its instance",
        )
    describe_group(talk, group, "describe at the end")


def list_groups(talk: Talk, version: int) -> None:
    api = D.list_groups
    for label, values in {
        "stable": {"states_filter": ["Stable"], "types_filter": ["Consumer"]},
        "in other case": {"states_filter": ["sTABLE"], "types_filter": ["CONSUMER"]},
        "an unknown state": {"states_filter": ["Nope"]},
        "an unknown type": {"types_filter": ["nope"]},
        "dead": {"states_filter": ["Dead"]},
    }.items():
        if version >= 5 or (version >= 4 and "types_filter" not in values):
            talk.say(api.ListGroupsRequest(**values), version, label)
