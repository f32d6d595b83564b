"""What a client hears of share groups, streams groups and voters: that they are off, as from a Kafka without them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.messages import request_class
from oncelog.protocol.messages.add_raft_voter import AddRaftVoterRequest
from oncelog.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from oncelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from oncelog.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from oncelog.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient

NOT_COORDINATOR, UNSUPPORTED_VERSION, INVALID_REQUEST, INCONSISTENT_CLUSTER_ID = 16, 35, 42, 104
NO_SHARE_GROUPS = "The version of API is not supported: this broker has no share groups (KIP-932)"
NO_STREAMS_GROUPS = (
    "The version of API is not supported: this broker has no streams groups (KIP-1071); set group.protocol=classic"
)
STATE = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "InitializeStateData",
    ApiKey.READ_SHARE_GROUP_STATE: "ReadStateData",
    ApiKey.WRITE_SHARE_GROUP_STATE: "WriteStateData",
    ApiKey.DELETE_SHARE_GROUP_STATE: "DeleteStateData",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "ReadStateSummaryData",
}
ONE, TWO = b"\1" * 16, b"\2" * 16


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        yield client
    broker.stop()


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (ApiKey.SHARE_GROUP_HEARTBEAT, NO_SHARE_GROUPS),
        (ApiKey.SHARE_FETCH, NO_SHARE_GROUPS),
        (ApiKey.SHARE_ACKNOWLEDGE, NO_SHARE_GROUPS),
        (ApiKey.ALTER_SHARE_GROUP_OFFSETS, NO_SHARE_GROUPS),
        (ApiKey.DELETE_SHARE_GROUP_OFFSETS, NO_SHARE_GROUPS),
        (ApiKey.STREAMS_GROUP_HEARTBEAT, NO_STREAMS_GROUPS),
    ],
    ids=lambda value: value.stem if isinstance(value, ApiKey) else "",
)
def test_requests_of_members(client: RawClient, key: ApiKey, message: str) -> None:
    request = request_class(key)
    for version in range(request.VERSIONS.first, request.VERSIONS.last + 1):
        answer: Any = client.call(request(), version)
        assert (answer.error_code, answer.error_message) == (UNSUPPORTED_VERSION, message)


def test_each_group_is_refused(client: RawClient) -> None:
    offsets = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in ("a", "", "a")]
    )
    for request, version, message in (
        (ShareGroupDescribeRequest(group_ids=["a", "", "a"]), 1, NO_SHARE_GROUPS),
        (StreamsGroupDescribeRequest(group_ids=["a", "", "a"]), 0, NO_STREAMS_GROUPS),
        (offsets, 0, NO_SHARE_GROUPS),
        (offsets, 1, NO_SHARE_GROUPS),
    ):
        answer: Any = client.call(request, version)
        told = [(group.group_id, group.error_code, group.error_message) for group in answer.groups]
        assert told == [(group, UNSUPPORTED_VERSION, message) for group in ("a", "", "a")]


@pytest.mark.parametrize("key", STATE, ids=lambda key: key.stem)
def test_no_share_state_is_coordinated_here(client: RawClient, key: ApiKey) -> None:
    api = import_module(f"oncelog.protocol.messages.{key.stem}")
    request = request_class(key)

    def ask(group: str, **topics: list[int]) -> list[tuple[bytes, list[tuple[int, int]]]]:
        """The topics of the answer, each with the errors of its partitions."""
        asked = [
            getattr(api, STATE[key])(
                topic_id={"one": ONE, "two": TWO}[name],
                partitions=[api.PartitionData(partition=index) for index in indexes],
            )
            for name, indexes in topics.items()
        ]
        answer: Any = client.call(request(group_id=group, topics=asked), request.VERSIONS.last)
        return [
            (topic.topic_id, [(each.partition, each.error_code) for each in topic.partitions])
            for topic in answer.results
        ]

    assert ask("g", one=[0, 1, 0], two=[5]) == [
        (ONE, [(0, NOT_COORDINATOR), (1, NOT_COORDINATOR)]),
        (TWO, [(5, NOT_COORDINATOR)]),
    ]
    assert ask("g", one=[-1, 0]) == [(ONE, [(-1, NOT_COORDINATOR), (0, NOT_COORDINATOR)])]
    assert ask("", one=[0]) == ask("g", one=[]) == ask("g") == []


@pytest.mark.parametrize(
    ("make", "version", "verb"),
    [(AddRaftVoterRequest, 0, "add"), (AddRaftVoterRequest, 1, "add"), (RemoveRaftVoterRequest, 0, "remov")],
)
def test_voters_are_fixed(client: RawClient, make: Any, version: int, verb: str) -> None:
    def ask(cluster_id: str | None, voter_id: int, directory: bytes) -> Any:
        return client.call(make(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory), version)

    refused = ask(None, 9, ONE)
    line = f"Cluster doesn't support {verb}ing voter because the kraft.version feature is 0"
    assert (refused.error_code, refused.error_message) == (UNSUPPORTED_VERSION, line)
    assert ask("another", 9, ONE).error_code == INCONSISTENT_CLUSTER_ID
    assert ask(None, -1, ONE).error_code == INVALID_REQUEST
    assert ask(None, 9, bytes(16)).error_code == INVALID_REQUEST
