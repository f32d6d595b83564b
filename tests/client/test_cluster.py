from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.client.cluster import Cluster
from oncelog.client.errors import BrokerUnavailable, UnknownTopic
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from tests.client.fake_broker import TOPIC, FakeBroker


def test_metadata_of_a_topic(cluster: Cluster, topic: str) -> None:
    metadata = cluster.topic(topic)
    assert list(metadata.partitions) == [0, 1, 2]
    assert all(partition.leader_id in cluster.brokers for partition in metadata.partitions.values())
    assert cluster.topic(topic) is metadata
    assert topic in [known.name for known in cluster.topics()]


def test_the_first_address_that_answers_is_taken(bootstrap_servers: str) -> None:
    with Cluster(f"127.0.0.1:1,{bootstrap_servers}") as cluster:
        assert cluster.any_connection()


def test_an_address_that_accepts_and_stays_silent_is_passed_over(bootstrap_servers: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Cluster(f"127.0.0.1:{silent.getsockname()[1]},{bootstrap_servers}", timeout_ms=2_000) as cluster,
    ):
        assert str(cluster.any_connection().address) == bootstrap_servers


def test_an_address_that_hangs_up_is_passed_over(bootstrap_servers: str) -> None:
    with FakeBroker(lambda _: None) as broker, Cluster(f"{broker.address},{bootstrap_servers}") as cluster:
        assert str(cluster.any_connection().address) == bootstrap_servers


def test_no_address_answers() -> None:
    with (
        Cluster("127.0.0.1:1,127.0.0.1:2") as cluster,
        pytest.raises(BrokerUnavailable, match=r"no broker answers at 127\.0\.0\.1:1;"),
    ):
        cluster.any_connection()


def test_an_unknown_topic_is_not_created(cluster: Cluster, new_name: Callable[[], str]) -> None:
    name = new_name()
    with pytest.raises(UnknownTopic, match=f"there is no topic '{name}'"):
        cluster.topic(name)
    assert name not in [known.name for known in cluster.topics()]


def test_an_unknown_partition(cluster: Cluster, topic: str) -> None:
    with pytest.raises(UnknownTopic, match=r"partition 3 does not exist; topic .* has 3 partitions \(0 to 2\)"):
        cluster.leader_id(topic, 3)


def test_an_invalid_name_is_refused_at_once(cluster: Cluster) -> None:
    with pytest.raises(KafkaError) as caught:
        cluster.topic("not a name")
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_leader_that_is_not_elected_yet_is_waited_for() -> None:
    answers: list[int] = []

    def answer(request: Any) -> Any:
        if request.API_KEY == ApiKey.METADATA and len(answers) < 3:
            answers.append(1)
            topic = MetadataResponseTopic(name=TOPIC, error_code=ErrorCode.LEADER_NOT_AVAILABLE)
            return MetadataResponse(topics=[topic])
        return NotImplemented

    with FakeBroker(answer) as broker, Cluster(str(broker.address)) as cluster:
        assert cluster.topic(TOPIC).partitions[0].leader_id == 1


def test_an_advertised_address_that_leads_nowhere_is_named() -> None:
    def answer(request: Any) -> Any:
        if request.API_KEY == ApiKey.METADATA:
            metadata = broker.usual(request)
            assert isinstance(metadata, MetadataResponse)
            metadata.brokers = [MetadataResponseBroker(node_id=1, host="nowhere.invalid", port=9092)]
            return metadata
        return NotImplemented

    with FakeBroker(answer) as broker, Cluster(str(broker.address)) as cluster:
        leader_id = cluster.leader_id(TOPIC, 0)
        with pytest.raises(BrokerUnavailable, match=r"nowhere.invalid .*\(broker 1 is advertised at this address\)"):
            cluster.connection(leader_id)


def test_a_lost_connection_is_opened_again() -> None:
    lost: list[int] = []

    def answer(request: Any) -> Any:
        if request.API_KEY == ApiKey.METADATA and not lost:
            lost.append(1)
            return None
        return NotImplemented

    with FakeBroker(answer) as broker, Cluster(str(broker.address)) as cluster:
        assert cluster.topic(TOPIC).name == TOPIC
