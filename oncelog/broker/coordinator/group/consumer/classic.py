"""Members of the classic protocol inside a consumer group: JoinGroup, SyncGroup and Heartbeat (KIP-848).

To such a member its epoch is a generation. It learns by its heartbeat that there is something new for it, joins
with the partitions that it still has, and gets by SyncGroup what the broker has assigned; nobody leads. Where it
has to give partitions up it gets the rest first, and the new ones in the round after.
"""

from __future__ import annotations

from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.common import Caller
from oncelog.broker.coordinator.group.consumer.consumer_group import (
    PROTOCOL_TYPE,
    ConsumerGroup,
    is_rebalancing,
)
from oncelog.broker.coordinator.group.consumer.heartbeat import check_static, replace_static
from oncelog.broker.coordinator.group.consumer.member import ClassicMembership, ConsumerMember, MemberState
from oncelog.broker.coordinator.group.consumer.settings import ConsumerSettings
from oncelog.broker.coordinator.group.consumer.timers import join_timer, session_timer, sync_timer
from oncelog.broker.coordinator.group.consumer.topics import TopicMetadata
from oncelog.broker.coordinator.group.consumer.update import MemberUpdate
from oncelog.broker.coordinator.group.consumer.upgrade import (
    Downgrade,
    can_downgrade,
    decode_subscription,
    encode_assignment,
)
from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.messages.consumer_group_heartbeat import TopicPartitions
from oncelog.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from oncelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4


class ClassicJoin:
    """One JoinGroup request to a consumer group that has members."""

    def __init__(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        topics: TopicMetadata,
        group_settings: GroupSettings,
        settings: ConsumerSettings,
        effects: Effects,
    ) -> None:
        self._group = group
        self._request = request
        self._caller = caller
        self._topics = topics
        self._group_settings = group_settings
        self._settings = settings
        self._effects = effects

    def run(self) -> JoinGroupResponse:
        request, group = self._request, self._group
        subscription = self._check()
        member_id = request.member_id or self._caller.unique
        is_dynamic = request.group_instance_id is None
        if not request.member_id and is_dynamic and self._caller.version >= MEMBER_ID_REQUIRED_SINCE:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        former = group.static_member(request.group_instance_id)
        if former is not None and self._ends_consumer_group(former):
            return self._downgrade(former, self._updated(former._replace(member_id=member_id), subscription))
        before = self._find_member(former, member_id)
        update = MemberUpdate(
            group, before, self._updated(before, subscription), self._topics, self._settings, self._effects
        )
        return self._joined(update.run(self._reported(subscription)))

    def _ends_consumer_group(self, former: ConsumerMember) -> bool:
        is_back = not self._request.member_id and former.classic is None
        return is_back and can_downgrade(self._group, [former], self._group_settings, joining=True)

    def _check(self) -> ConsumerProtocolSubscription:
        request, group = self._request, self._group
        if request.member_id not in group.members and len(group.members) >= (
            self._group_settings.consumer_group_size_max
        ):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members")
        if not group.supports_classic(request.protocol_type, [protocol.name for protocol in request.protocols]):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "other members do not speak the protocols")
        try:
            return decode_subscription(request.protocols[0].metadata)
        except ProtocolError as error:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None

    def _find_member(self, former: ConsumerMember | None, member_id: str) -> ConsumerMember:
        request, group = self._request, self._group
        if request.group_instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if request.member_id:
            return check_static(former, member_id, request.group_instance_id)
        if former is None:
            return ConsumerMember(member_id)
        return replace_static(group, former, member_id, self._effects)

    def _updated(self, member: ConsumerMember, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
        request = self._request
        protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        return member._replace(
            instance_id=request.group_instance_id or member.instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            topic_regex="",
            client_id=self._caller.client_id,
            client_host=self._caller.client_host,
            classic=ClassicMembership(request.session_timeout_ms, protocols),
        )

    def _reported(self, subscription: ConsumerProtocolSubscription) -> list[TopicPartitions]:
        known = self._topics.image.topics
        return [
            TopicPartitions(topic_id=known[owned.topic].id, partitions=owned.partitions)
            for owned in subscription.owned_partitions
            if owned.topic in known
        ]

    def _joined(self, member: ConsumerMember) -> JoinGroupResponse:
        group_id, effects = self._group.group_id, self._effects
        self._group.awaited_joins.discard(member.member_id)
        effects.cancel_timer(join_timer(group_id, member.member_id))
        effects.set_timer(session_timer(group_id, member.member_id), self._request.session_timeout_ms)
        effects.set_timer(sync_timer(group_id, member.member_id), self._request.rebalance_timeout_ms)
        return self._answer(member, member.member_epoch)

    def _downgrade(self, former: ConsumerMember, joining: ConsumerMember) -> JoinGroupResponse:
        """The static member was the last one of the consumer protocol, and is back as a classic one."""
        Downgrade(self._group, [former], joining, self._topics, self._effects.now).carry_out(self._effects)
        return self._answer(joining, self._group.group_epoch)

    def _answer(self, member: ConsumerMember, generation: int) -> JoinGroupResponse:
        assert member.classic is not None
        return JoinGroupResponse(
            member_id=member.member_id,
            generation_id=generation,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=member.classic.protocol,
        )


def classic_sync(
    group: ConsumerGroup, request: SyncGroupRequest, topics: TopicMetadata, effects: Effects
) -> SyncGroupResponse:
    member, classic = _find_classic(
        group, request.member_id, request.group_instance_id, generation=request.generation_id
    )
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, classic.protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the member has joined with another protocol")
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(group, member, effects)
        # An answer and not an exception, since the timer is to be set.
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    effects.cancel_timer(sync_timer(group.group_id, member.member_id))
    effects.set_timer(session_timer(group.group_id, member.member_id), classic.session_timeout_ms)
    assigned = {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(assigned, topics, classic.metadata),
    )


def classic_heartbeat(group: ConsumerGroup, request: HeartbeatRequest, effects: Effects) -> HeartbeatResponse:
    member, classic = _find_classic(
        group, request.member_id, request.group_instance_id, generation=request.generation_id
    )
    effects.set_timer(session_timer(group.group_id, member.member_id), classic.session_timeout_ms)
    if not is_rebalancing(group, member):
        return HeartbeatResponse()
    _await_join(group, member, effects)
    return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        return group.member(member_id)
    former = group.static_member(instance_id)
    return check_static(former, member_id, instance_id)


def _find_classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None, *, generation: int
) -> tuple[ConsumerMember, ClassicMembership]:
    member = find_member(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of the classic protocol")
    if generation != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"the member is at {member.member_epoch}")
    return member, member.classic


def _await_join(group: ConsumerGroup, member: ConsumerMember, effects: Effects) -> None:
    """The time to join again counts from the first time that the member is told to."""
    if member.member_id not in group.awaited_joins:
        group.awaited_joins.add(member.member_id)
        effects.set_timer(join_timer(group.group_id, member.member_id), member.rebalance_timeout_ms)
