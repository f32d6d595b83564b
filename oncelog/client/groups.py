"""Consumer groups from outside: who is in them, how far they are, and moving them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from oncelog.client.cluster import Cluster, TopicPartition
from oncelog.client.counting import count_records
from oncelog.client.errors import known_code
from oncelog.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import decode
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from oncelog.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from oncelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from oncelog.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from oncelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from oncelog.protocol.schema import Message

M = TypeVar("M", bound=Message)

_CONSUMER_PROTOCOL_VERSION_MAX = 3
_NO_OFFSET = -1
COUNTED_OFFSETS_MAX = 1000
_GROUP_IN_USE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)
"""What a broker says to a commit from outside while the group has members."""


class GroupSummary(NamedTuple):
    group_id: str
    type: str
    state: str
    protocol_type: str


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]


class GroupPosition(NamedTuple):
    """A group in one partition. The lag counts records that a read_committed consumer would still get: markers
    and aborted records take offsets too, but nobody ever receives them."""

    topic: str
    partition: int
    committed_offset: int | None
    end_offset: int
    lag: int | None
    member: GroupMember | None


class GroupDescription(NamedTuple):
    group_id: str
    type: str
    state: str
    assignor: str
    members: list[GroupMember]
    positions: list[GroupPosition]


class GroupAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_groups(self) -> list[GroupSummary]:
        """The groups of all brokers, by name."""
        self._cluster.refresh([])
        found = []
        for broker_id in list(self._cluster.brokers):
            answer = self._cluster.connection(broker_id).send(ListGroupsRequest(), ListGroupsResponse)
            _check(answer.error_code, f"groups of broker {broker_id}")
            found += [
                GroupSummary(group.group_id, group.group_type or "classic", group.group_state, group.protocol_type)
                for group in answer.groups
            ]
        return sorted(found)

    def describe(self, group_id: str) -> GroupDescription:
        """KafkaError GROUP_ID_NOT_FOUND where there is none, also none with offsets alone."""
        description = self._describe_consumer(group_id) or self._describe_classic(group_id)
        committed = self.committed(group_id)
        owners = {partition: member for member in description.members for partition in member.partitions}
        wanted = sorted(committed.keys() | owners.keys())
        ends = list_offsets(self._cluster, dict.fromkeys(wanted, LATEST), isolation=Isolation.READ_COMMITTED)
        lags = self._lags(committed, {partition: ends[partition].offset for partition in wanted})
        positions = [
            GroupPosition(
                *partition,
                committed.get(partition),
                ends[partition].offset,
                lags.get(partition),
                owners.get(partition),
            )
            for partition in wanted
        ]
        return description._replace(positions=positions)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The group's committed offsets in all topics."""
        request = OffsetFetchRequest(
            group_id=group_id, topics=None, groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)]
        )
        answer = self._ask(group_id, request, OffsetFetchResponse)
        self._cluster.topics()
        offsets: dict[TopicPartition, int] = {}
        for group in answer.groups:
            _check(group.error_code, f"offsets of {group_id}")
            for topic in group.topics:
                name = self._cluster.topic_name(topic.topic_id, topic.name)
                offsets |= {(name, part.partition_index): part.committed_offset for part in topic.partitions}
        _check(answer.error_code, f"offsets of {group_id}")
        for old_topic in answer.topics:
            offsets |= {(old_topic.name, part.partition_index): part.committed_offset for part in old_topic.partitions}
        return {partition: offset for partition, offset in offsets.items() if offset != _NO_OFFSET}

    def check_inactive(self, group_id: str) -> None:
        """Raises KafkaError NON_EMPTY_GROUP for a group with members; nobody else may move its offsets."""
        try:
            description = self._describe_consumer(group_id) or self._describe_classic(group_id)
        except KafkaError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return
        if description.members:
            _check_group(ErrorCode.NON_EMPTY_GROUP, group_id)

    def plan_reset(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """The offsets of EARLIEST, LATEST or a time; where nothing is that new, the end."""
        wanted = list(partitions)
        found = list_offsets(self._cluster, dict.fromkeys(wanted, timestamp))
        if all(found[partition].offset != _NO_OFFSET for partition in wanted):
            return {partition: found[partition].offset for partition in wanted}
        ends = list_offsets(self._cluster, dict.fromkeys(wanted, LATEST))
        return {
            partition: ends[partition].offset if found[partition].offset == _NO_OFFSET else found[partition].offset
            for partition in wanted
        }

    def within_log(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The same offsets, moved to the nearest end where they are outside of the log."""
        starts = list_offsets(self._cluster, dict.fromkeys(offsets, EARLIEST))
        ends = list_offsets(self._cluster, dict.fromkeys(offsets, LATEST))
        return {
            partition: min(max(offset, starts[partition].offset), ends[partition].offset)
            for partition, offset in offsets.items()
        }

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of a group that nobody is in; with members, the broker refuses."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            asked = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
            topics.setdefault(topic, []).append(asked)
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(name=name, topic_id=self._cluster.topic(name).topic_id, partitions=asked)
                for name, asked in topics.items()
            ],
        )
        answer = self._ask(group_id, request, OffsetCommitResponse)
        for topic_answer in answer.topics:
            for part in topic_answer.partitions:
                if part.error_code in _GROUP_IN_USE:
                    code = known_code(part.error_code)
                    raise KafkaError(code, f"group {group_id!r} has members; stop its consumers first")
                _check(part.error_code, f"offset of {group_id} in partition {part.partition_index}")

    def delete(self, group_id: str) -> None:
        answer = self._ask(group_id, DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse)
        for result in answer.results:
            _check_group(result.error_code, group_id)

    # -- asking ----------------------------------------------------------------------------------------------

    def _ask(self, group_id: str, request: Message, response: type[M]) -> M:
        def ask() -> M:
            return self._cluster.connection(self._coordinator(group_id)).send(request, response)

        return self._cluster.retry(ask)

    def _coordinator(self, group_id: str) -> int:
        self._cluster.refresh([])
        request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
        answer = self._cluster.ask_any(request, FindCoordinatorResponse)
        if answer.coordinators:
            (found,) = answer.coordinators
            _check(found.error_code, f"coordinator of {group_id}")
            return found.node_id
        _check(answer.error_code, f"coordinator of {group_id}")
        return answer.node_id

    def _describe_consumer(self, group_id: str) -> GroupDescription | None:
        """None for a group that is not of the new protocol, or a broker that does not have it (KIP-848)."""
        if not self._cluster.supports(ApiKey.CONSUMER_GROUP_DESCRIBE):
            return None
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        (group,) = self._ask(group_id, request, ConsumerGroupDescribeResponse).groups
        if group.error_code:
            return None
        members = [
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                [
                    (topic.topic_name, index)
                    for topic in member.assignment.topic_partitions
                    for index in topic.partitions
                ],
            )
            for member in group.members
        ]
        return GroupDescription(group_id, "consumer", group.group_state, group.assignor_name, members, [])

    def _describe_classic(self, group_id: str) -> GroupDescription:
        (group,) = self._ask(group_id, DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse).groups
        _check_group(group.error_code, group_id)
        members = [
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _assigned(member.member_assignment) if group.protocol_type == "consumer" else [],
            )
            for member in group.members
        ]
        return GroupDescription(group_id, "classic", group.group_state, group.protocol_data, members, [])

    def _lags(
        self, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """A short distance is counted; a long one is what the offsets say, since to count it means to read it."""
        distances = {partition: max(0, ends[partition] - offset) for partition, offset in committed.items()}
        short = [partition for partition, distance in distances.items() if 0 < distance <= COUNTED_OFFSETS_MAX]
        if not short:
            return distances
        starts = list_offsets(self._cluster, dict.fromkeys(short, EARLIEST))
        ranges = {
            partition: (max(committed[partition], starts[partition].offset), ends[partition]) for partition in short
        }
        return distances | count_records(self._cluster, ranges)


def _assigned(assignment: bytes) -> list[TopicPartition]:
    """What the leader of a classic group gave to a member; nothing while the group rebalances."""
    if len(assignment) < 2:
        return []
    version = min(int.from_bytes(assignment[:2], "big"), _CONSUMER_PROTOCOL_VERSION_MAX)
    decoded = decode(ConsumerProtocolAssignment, version, assignment, 2)
    return [(topic.topic, index) for topic in decoded.assigned_partitions for index in topic.partitions]


def _check_group(code: int, group_id: str) -> None:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
    if code == ErrorCode.NON_EMPTY_GROUP:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members; stop its consumers first")
    _check(code, f"group {group_id}")


def _check(code: int, what: str) -> None:
    if code:
        raise KafkaError(known_code(code), what)
