"""JoinGroup to a classic group: who may become or stay a member, and what that sets going."""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinator.contract import Result
from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.classic.member import ClassicMember, utf8_bytes_max
from oncelog.broker.coordinator.group.classic.rebalance import (
    complete_join_with,
    complete_sync_with,
    join_refusal,
    join_token,
    joined,
    maybe_complete,
    prepare,
    rebalance_or_complete,
    refresh_session,
    session_timer,
)
from oncelog.broker.coordinator.group.classic.states import ClassicState
from oncelog.broker.coordinator.group.common import Caller
from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.join_group import JoinGroupRequest
from oncelog.protocol.messages.sync_group import SyncGroupResponse

MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a rebalance waits for others on behalf of a member whose client may be gone already."""


_GROUP_FIXED_BYTES_MAX = 512
"""What the record of a group takes besides its members and its texts, with the batch that it is in."""


class Join:
    """One JoinGroup request on its way."""

    __slots__ = ("_caller", "_effects", "_group", "_protocols", "_request", "_settings")

    def __init__(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        settings: GroupSettings,
        effects: Effects,
    ) -> None:
        self._group = group
        self._request = request
        self._caller = caller
        self._settings = settings
        self._effects = effects
        self._protocols = {protocol.name: protocol.metadata for protocol in request.protocols}

    def run(self) -> Result[Any]:
        group, member_id = self._group, self._request.member_id
        if not self._has_room():
            group.remove(member_id)
            return self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        if not group.supports(self._request.protocol_type, self._protocols):
            return self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if not self._fits():
            return self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        if member_id:
            return self._known()
        if self._request.group_instance_id is not None:
            return self._unknown_static(self._request.group_instance_id)
        return self._unknown_dynamic()

    def _has_room(self) -> bool:
        """The limit may have been lowered, so while a rebalance waits those who join first stay."""
        group, member_id, size_max = self._group, self._request.member_id, self._settings.group_size_max
        match group.state:
            case ClassicState.EMPTY:
                return bool(member_id) or len(group.pending_members) < size_max
            case ClassicState.PREPARING_REBALANCE:
                return member_id in group.awaiting_join or len(group.awaiting_join) < size_max
            case _:
                return member_id in group.members or len(group.members) < size_max

    def _fits(self) -> bool:
        """Whether the log could take a generation with this member in it, if assignments do not grow. If not, the
        leader's SyncGroup would be refused; so that the others can go on, the one who is too much is refused."""
        group, request = self._group, self._request
        former_id = request.member_id or group.static_members.get(request.group_instance_id or "", "")
        former = group.members.get(former_id)
        joining = self._new_member(former_id or self._new_id(), former.assignment if former else b"")
        others_bytes = group.members_bytes_max - (former.record_bytes_max if former else 0)
        texts = (group.group_id, request.protocol_type, group.leader_id or joining.member_id, *self._protocols)
        texts_bytes = sum(map(utf8_bytes_max, texts))
        size_bytes = others_bytes + joining.record_bytes_max + texts_bytes + _GROUP_FIXED_BYTES_MAX
        return size_bytes <= self._effects.batch_bytes_max

    # -- without a member id ---------------------------------------------------------------------------------

    def _unknown_dynamic(self) -> Result[Any]:
        new_id = self._new_id()
        if self._caller.version < MEMBER_ID_REQUIRED_FROM:
            return self._add(new_id)
        # A client that gives up before it has an id would leave a member behind with every try (KIP-394).
        self._group.pending_members.add(new_id)
        self._effects.set_timer(session_timer(self._group, new_id), self._request.session_timeout_ms)
        return self._refuse(ErrorCode.MEMBER_ID_REQUIRED, new_id)

    def _new_id(self) -> str:
        """Begins with what an operator knows the member by."""
        instance_id = self._request.group_instance_id
        return f"{self._caller.client_id if instance_id is None else instance_id}-{self._caller.unique}"

    def _unknown_static(self, instance_id: str) -> Result[Any]:
        former_id = self._group.static_members.get(instance_id)
        if former_id is None:
            return self._add(self._new_id())
        return self._replace_static(instance_id, former_id)

    def _replace_static(self, instance_id: str, former_id: str) -> Result[Any]:
        """Its former self, if it still waits for something, is fenced off (KIP-345)."""
        group, effects = self._group, self._effects
        fenced = join_refusal(ErrorCode.FENCED_INSTANCE_ID, former_id)
        complete_join_with(group, former_id, fenced, effects)
        complete_sync_with(group, former_id, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID), effects)
        effects.cancel_timer(session_timer(group, former_id))
        former_leader_id = group.leader_id
        member = group.rename_static(instance_id, self._new_id())
        self._update(member)
        refresh_session(group, member, effects)
        if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol:
            return self._keep_generation(member, former_leader_id)
        group.awaiting_join.add(member.member_id)
        if group.state is ClassicState.PREPARING_REBALANCE:
            maybe_complete(group, effects)
        else:
            # In CompletingRebalance the leader may already assign partitions to the former id.
            prepare(group, self._settings, effects)
        return self._wait(member.member_id)

    def _keep_generation(self, member: ClassicMember, former_leader_id: str | None) -> Result[Any]:
        """A restarted static member gets back what it had, without a rebalance."""
        group, effects = self._group, self._effects
        assignments = {other.member_id: other.assignment for other in group.members.values()}
        effects.write(group.record(assignments, effects.now))
        if self._caller.version >= SKIP_ASSIGNMENT_FROM:
            # The leader goes on watching the topics of all, but must not assign anew (KIP-814).
            is_leader = group.leader_id == member.member_id
            return effects.result(joined(group, member.member_id, skip_assignment=is_leader))
        # An older client that learnt that it leads would assign: it is not told.
        return effects.result(joined(group, member.member_id, leader_id=former_leader_id))

    # -- with a member id ------------------------------------------------------------------------------------

    def _known(self) -> Result[Any]:
        group, member_id, instance_id = self._group, self._request.member_id, self._request.group_instance_id
        if instance_id is None and member_id in group.pending_members:
            return self._add(member_id)
        try:
            group.check_member(member_id, instance_id)
        except KafkaError as error:
            return self._refuse(error.code, member_id)
        member = group.members[member_id]
        if self._is_retry(member):
            return self._effects.result(joined(group, member_id))
        self._update(member)
        group.awaiting_join.add(member_id)
        rebalance_or_complete(group, self._settings, self._effects)
        return self._wait(member_id)

    def _is_retry(self, member: ClassicMember) -> bool:
        """Whether the member can be told of the present generation again, since nothing has changed for it.
        The leader of a stable group wants a rebalance in any case: topics may have changed."""
        if not member.has_protocols(self._protocols):
            return False
        match self._group.state:
            case ClassicState.COMPLETING_REBALANCE:
                return True
            case ClassicState.STABLE:
                return self._group.leader_id != member.member_id
            case _:
                return False

    def _add(self, member_id: str) -> Result[Any]:
        request, group = self._request, self._group
        member = self._new_member(member_id)
        member.is_new = True
        group.new_member_added = group.initial_delay is not None
        group.add(member, request.protocol_type)
        group.awaiting_join.add(member_id)
        self._effects.set_timer(session_timer(group, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
        rebalance_or_complete(group, self._settings, self._effects)
        return self._wait(member_id)

    def _new_member(self, member_id: str, assignment: bytes = b"") -> ClassicMember:
        request = self._request
        return ClassicMember(
            member_id,
            instance_id=request.group_instance_id,
            client_id=self._caller.client_id,
            client_host=self._caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=self._protocols,
            assignment=assignment,
        )

    def _update(self, member: ClassicMember) -> None:
        self._group.update(
            member,
            self._protocols,
            rebalance_timeout_ms=self._request.rebalance_timeout_ms,
            session_timeout_ms=self._request.session_timeout_ms,
        )

    def _wait(self, member_id: str) -> Result[Any]:
        displaced = join_refusal(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
        return self._effects.park(join_token(self._group, member_id), displaced)

    def _refuse(self, code: ErrorCode, member_id: str) -> Result[Any]:
        return self._effects.result(join_refusal(code, member_id))
