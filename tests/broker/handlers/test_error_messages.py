"""Where Kafka has a stable message for an error, ours begins with it, because scripts and tests look for it.

All that Kafka says in the wire comparison is compared there; these are the ones that need no Kafka beside.
"""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.client.addresses import parse_address
from oncelog.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, RequestEntryData
from oncelog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from oncelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.testing import Broker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import batch, now_ms, produce, record


@pytest.fixture(scope="module")
def client() -> Any:
    with Broker() as broker, RawClient(parse_address(broker.bootstrap_servers).port) as client:
        client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
        yield client


def heartbeat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    joining: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 5000}
    joining |= {"subscribed_topic_names": ["t"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(**joining | fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"subscribed_topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        ({"server_assignor": "nope"}, "ServerAssignor nope is not supported. Supported assignors: uniform, range."),
        ({"member_epoch": 5}, "Consumer group g not found."),
        ({"member_epoch": -1}, "Group g not found."),
        ({"member_epoch": -7}, "MemberEpoch is invalid."),
    ],
)
def test_heartbeats(client: RawClient, fields: dict[str, Any], message: str) -> None:
    assert client.call(heartbeat(**fields), 1).error_message.startswith(message)


def test_a_group_that_is_absent(client: RawClient) -> None:
    answer = client.call(ConsumerGroupDescribeRequest(group_ids=["absent"]), 1)
    assert answer.groups[0].error_message == "Group absent not found."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "Topic name is invalid: the empty string is not allowed"),
        (
            {"name": "a b"},
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics,",
        ),
        ({"name": "x" * 250}, f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed"),
        ({"num_partitions": 0}, "Number of partitions was set to an invalid non-positive value."),
        ({"replication_factor": 2}, "Unable to replicate the partition 2 time(s): The target replication factor of 2"),
        ({"no.such": "1"}, "Unknown topic config name: no.such"),
        ({"retention.ms": "soon"}, "Invalid value soon for configuration retention.ms: Not a number of type LONG"),
        ({"segment.bytes": "3"}, "Invalid value 3 for configuration segment.bytes: Value must be at least 1048576"),
        (
            {"min.cleanable.dirty.ratio": "2"},
            "Invalid value 2 for configuration min.cleanable.dirty.ratio: Value must be",
        ),
        (
            {"preallocate": "yes"},
            "Invalid value yes for configuration preallocate: Expected value to be either true or",
        ),
    ],
)
def test_topics(client: RawClient, fields: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in fields.items() if name not in given]
    topic = CreatableTopic(**{name: fields.get(name, value) for name, value in given.items()}, configs=configs)
    (answer,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics
    assert answer.error_message.startswith(message)


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"entity_type": ""}, "Invalid empty entity type."),
        ({"entity_type": "planet"}, "Unsupported entity type planet"),
        ({"match_type": 7}, "Unknown match type 7"),
        ({"match": None}, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
    ],
)
def test_quotas(client: RawClient, component: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"entity_type": "user", "match_type": 0, "match": "alice"}
    request = DescribeClientQuotasRequest(components=[ComponentData(**fields | component)], strict=False)
    assert client.call(request, 1).error_message == message


def test_quotas_of_nobody(client: RawClient) -> None:
    (answer,) = client.call(AlterClientQuotasRequest(entries=[RequestEntryData(entity=[], ops=[])]), 1).entries
    assert answer.error_message.startswith("Invalid empty client quota entity")


@pytest.mark.parametrize(
    ("config", "bad", "message"),
    [
        (
            {"message.timestamp.before.max.ms": "60000"},
            {"timestamp": now_ms() - 3_600_000},
            "One or more records have been rejected due to invalid timestamp",
        ),
        (
            {"cleanup.policy": "compact"},
            {"key": None},
            "One or more records have been rejected due to 1 record errors in total, and only showing the first three "
            "errors at most: [RecordError(batchIndex=0, message='Compacted topic cannot accept message without key",
        ),
    ],
    ids=["a time", "a key"],
)
def test_records(client: RawClient, config: dict[str, str], bad: dict[str, Any], message: str) -> None:
    name = next(iter(config))
    configs = [CreatableTopicConfig(name=name, value=config[name])]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
    client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    answer = client.call(produce(name, batch(record(**bad))), 9).responses[0].partition_responses[0]
    assert answer.error_message.startswith(message)
