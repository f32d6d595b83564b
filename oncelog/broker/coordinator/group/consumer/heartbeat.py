"""ConsumerGroupHeartbeat: a member joins a consumer group with epoch 0, stays in it, and leaves it (KIP-848).

epoch 0    join, with everything that the member is and nothing that it owns
epoch > 0  stay; what is null has not changed
epoch -1   leave
epoch -2   leave for a while: a static member whose partitions wait for it
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from oncelog.broker.coordinator.contract import RecordsTooLarge
from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.common import Caller
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    OwnedPartitions,
    owns_all,
)
from oncelog.broker.coordinator.group.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from oncelog.broker.coordinator.group.consumer.settings import ConsumerSettings
from oncelog.broker.coordinator.group.consumer.timers import cancel_timers, rebalance_timer, session_timer
from oncelog.broker.coordinator.group.consumer.topics import TopicMetadata
from oncelog.broker.coordinator.group.consumer.update import MemberUpdate
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

logger = logging.getLogger(__name__)

CLIENT_CHOOSES_ID_SINCE = 1
_NOT_GIVEN = -1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    epoch = request.member_epoch
    needs_id = version >= CLIENT_CHOOSES_ID_SINCE or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH
    if needs_id and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    for name, text in (("Group", request.group_id), ("Instance", request.instance_id), ("Rack", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name}Id can't be empty.")
    if epoch == JOINING_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null. Only a static member can leave for a while.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise _invalid(f"MemberEpoch is invalid. There is no epoch {epoch}.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        names = ", ".join(assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {names}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def check_size(request: ConsumerGroupHeartbeatRequest, size_bytes_max: int) -> None:
    """Topic names take most of the time of a large request: do not begin with what the log will not take."""
    size_bytes = sum(map(len, request.subscribed_topic_names or ()))
    if size_bytes > size_bytes_max:
        raise RecordsTooLarge(size_bytes, size_bytes_max)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NOT_GIVEN:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


# -- joining and staying ---------------------------------------------------------------------------------------


def heartbeat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    topics: TopicMetadata,
    settings: ConsumerSettings,
    effects: Effects,
) -> ConsumerGroupHeartbeatResponse:
    member_id = request.member_id or caller.unique
    before = _find_member(group, request, member_id, effects)
    member = MemberUpdate(group, before, _updated(before, request, caller), topics, settings, effects).run(
        request.topic_partitions
    )
    effects.set_timer(session_timer(group.group_id, member_id), settings.session_timeout_ms)
    is_full = (
        request.rebalance_timeout_ms != _NOT_GIVEN
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    tells_assignment = is_full or request.member_epoch == JOINING_EPOCH or _has_moved(before, member)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=_assignment(member.assigned) if tells_assignment else None,
    )


def _find_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, effects: Effects
) -> ConsumerMember:
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is not None:
        return _find_static_member(group, request, member_id, effects)
    if joins:
        return group.members.get(member_id) or ConsumerMember(member_id)
    member = group.member(member_id)
    _check_epoch(member, request)
    return member


def _find_static_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, effects: Effects
) -> ConsumerMember:
    former = group.static_member(request.instance_id)
    if request.member_epoch != JOINING_EPOCH:
        member = check_static(former, member_id, request.instance_id)
        _check_epoch(member, request)
        return member
    if former is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if former.classic is None and former.member_epoch != STATIC_LEAVING_EPOCH:
        if former.member_id == member_id:
            # The answer to its first join got lost. Kafka refuses the second, which ends a Java consumer.
            return former
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the"
            f" instance id is owned by {former.member_id} member.",
        )
    return replace_static(group, former, member_id, effects)


def check_static(member: ConsumerMember | None, member_id: str, instance_id: str | None) -> ConsumerMember:
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, message)
    return member


def replace_static(group: ConsumerGroup, former: ConsumerMember, member_id: str, effects: Effects) -> ConsumerMember:
    """A static member is back: it takes over what its former self has."""
    group_id = group.group_id
    member = former._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    cancel_timers(group_id, former.member_id, effects)
    effects.write(
        *member_tombstones(group_id, former.member_id),
        member_record(group_id, member),
        target_record(group_id, member_id, group.targets.get(former.member_id, {})),
        current_record(group_id, member),
    )
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """An answer can get lost: the member is then one epoch behind, which shows by what it owns."""
    epoch = request.member_epoch
    if epoch == member.member_epoch:
        return
    reported = request.topic_partitions
    if (
        epoch < member.member_epoch
        and epoch == member.previous_member_epoch
        and reported is not None
        and owns_all(reported, member.assigned)
    ):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > member.member_epoch else 'smaller'} member epoch"
        f" ({epoch}) than the one known by the group coordinator ({member.member_epoch}). The member must abandon all"
        " its partitions and rejoin.",
    )


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    names, regex, timeout_ms = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.rebalance_timeout_ms,
    )
    return member._replace(
        instance_id=_given(request.instance_id, member.instance_id),
        rack_id=_given(request.rack_id, member.rack_id),
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _NOT_GIVEN else timeout_ms,
        server_assignor=_given(request.server_assignor, member.server_assignor),
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _given(text: str | None, former: str | None) -> str | None:
    return former if text is None else text


def _has_moved(before: ConsumerMember, after: ConsumerMember) -> bool:
    return _partition_sets(before.assigned) != _partition_sets(after.assigned)


def _partition_sets(owned: OwnedPartitions) -> dict[bytes, set[int]]:
    return {topic_id: set(partitions) for topic_id, partitions in owned.items()}


def _assignment(owned: OwnedPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(owned.items())
        ]
    )


# -- leaving ---------------------------------------------------------------------------------------------------


def find_leaving(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    if request.instance_id is None:
        return group.member(request.member_id)
    return check_static(group.static_member(request.instance_id), request.member_id, request.instance_id)


def leave_for_a_while(group: ConsumerGroup, member: ConsumerMember, effects: Effects) -> None:
    """Its session goes on: if it is not back by then, it is removed. What it was to give up it has given up."""
    logger.info("group %s: static member %s leaves for a while", group.group_id, member.member_id)
    waiting = member._replace(
        member_epoch=STATIC_LEAVING_EPOCH,
        assigned={topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()},
        revoking={},
    )
    effects.write(current_record(group.group_id, waiting))
    effects.cancel_timer(rebalance_timer(group.group_id, member.member_id))
