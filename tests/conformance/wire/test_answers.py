"""Answers that Oncelog once gave otherwise than Apache Kafka, as Kafka 4.3 was seen to give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.wire.good_requests import D
from conformance.wire.state import COMPACT, PLAIN, SETTINGS, batch, join_request, prepare, produce_request
from conformance.wire.talk import Talk
from oncelog.protocol.records.compression import Compression
from oncelog.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC, CLUSTER, GROUP = 3576, 8096, 3400


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with Broker(SETTINGS) as broker:
        talk = Talk(broker.bootstrap_servers)
        prepare(talk)
        yield talk
        talk.close()


def test_what_a_client_may_do_without_an_authorizer(talk: Talk) -> None:
    topics = [D.metadata.MetadataRequestTopic(name=PLAIN)]
    told = talk.ask(
        D.metadata.MetadataRequest(
            topics=topics, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
        ),
        10,
    )
    assert (told.cluster_authorized_operations, told.topics[0].topic_authorized_operations) == (CLUSTER, TOPIC)
    cluster = D.describe_cluster.DescribeClusterRequest(endpoint_type=1, include_cluster_authorized_operations=True)
    assert talk.ask(cluster, 1).cluster_authorized_operations == CLUSTER
    described = D.describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[D.describe_topic_partitions.TopicRequest(name=PLAIN)], response_partition_limit=10
    )
    assert talk.ask(described, 0).topics[0].topic_authorized_operations == TOPIC


def test_operations_on_groups(talk: Talk) -> None:
    classic = D.describe_groups.DescribeGroupsRequest(groups=["w-classic"], include_authorized_operations=True)
    assert talk.ask(classic, 6).groups[0].authorized_operations == GROUP
    consumer = D.consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=["w-consumer", "w-absent"], include_authorized_operations=True
    )
    found, absent = talk.ask(consumer, 1).groups
    assert found.authorized_operations == GROUP
    assert absent.authorized_operations == -(2**31)


def test_offsets_of_a_partition_that_stands_twice(talk: Talk) -> None:
    api = D.list_offsets
    partitions = [api.ListOffsetsPartition(partition_index=0, timestamp=-1) for _ in range(2)]
    topics = [api.ListOffsetsTopic(name=PLAIN, partitions=partitions)]
    answer = talk.ask(api.ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    assert [partition.error_code for partition in answer.topics[0].partitions] == [42]


def test_a_time_that_the_version_does_not_know(talk: Talk) -> None:
    api = D.list_offsets
    topics = [
        api.ListOffsetsTopic(name="w-absent", partitions=[api.ListOffsetsPartition(partition_index=0, timestamp=-3)])
    ]
    answer = talk.ask(api.ListOffsetsRequest(replica_id=-1, topics=topics), 6)
    assert answer.topics[0].partitions[0].error_code == 35


@pytest.mark.parametrize(
    ("values", "code", "diverging"),
    [
        ({"last_fetched_epoch": 0}, 0, (-1, -1)),
        ({"last_fetched_epoch": 7}, 1, (-1, -1)),
        ({"current_leader_epoch": -5}, 0, (-1, -1)),
    ],
)
def test_epochs_of_a_fetch(talk: Talk, values: dict[str, Any], code: int, diverging: tuple[int, int]) -> None:
    api = D.fetch
    partition = api.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000, **values)
    request = api.FetchRequest(topics=[api.FetchTopic(topic=PLAIN, partitions=[partition])])
    (told,) = talk.ask(request, 12).responses[0].partitions
    assert told.error_code == code
    assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == diverging


def test_a_cursor_must_be_among_the_topics(talk: Talk) -> None:
    api = D.describe_topic_partitions
    request = api.DescribeTopicPartitionsRequest(
        topics=[api.TopicRequest(name=PLAIN)],
        response_partition_limit=10,
        cursor=api.Cursor(topic_name="w-other", partition_index=0),
    )
    assert [topic.error_code for topic in talk.ask(request, 0).topics] == [42]


def test_names_that_cannot_be(talk: Talk) -> None:
    api = D.describe_topic_partitions
    request = api.DescribeTopicPartitionsRequest(topics=[api.TopicRequest(name="a/b")], response_partition_limit=10)
    assert talk.ask(request, 0).topics[0].error_code == 17
    producers = D.describe_producers
    wanted = producers.DescribeProducersRequest(topics=[producers.TopicRequest(name="a/b", partition_indexes=[0])])
    assert talk.ask(wanted, 0).topics[0].partitions[0].error_code == 17


def test_records_of_an_internal_topic_are_not_for_clients_to_delete(talk: Talk) -> None:
    api = D.delete_records
    partition = api.DeleteRecordsPartition(partition_index=0, offset=0)
    topics = [api.DeleteRecordsTopic(name="__consumer_offsets", partitions=[partition])]
    answer = talk.ask(api.DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
    assert answer.topics[0].partitions[0].error_code == 17


def test_an_election_of_all_names_all_topics(talk: Talk) -> None:
    answer = talk.ask(D.elect_leaders.ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), 2)
    found = {result.topic: result.partition_result for result in answer.replica_election_results}
    assert found[PLAIN] == []


def test_a_refused_update_of_features_names_none(talk: Talk) -> None:
    api = D.update_features
    update = api.FeatureUpdateKey(feature="no.such", max_version_level=1, upgrade_type=1)
    answer = talk.ask(api.UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update]), 1)
    assert answer.error_code == 95
    assert answer.results == []


def test_a_malformed_software_name_gets_no_list(talk: Talk) -> None:
    request = D.api_versions.ApiVersionsRequest(client_software_name="-", client_software_version="1")
    answer = talk.ask(request, 4)
    assert (answer.error_code, answer.api_keys) == (42, [])


def test_an_offset_kept_for_ever(talk: Talk) -> None:
    api = D.offset_commit
    partition = api.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = api.OffsetCommitRequest(
        group_id="w-for-ever",
        generation_id_or_member_epoch=-1,
        retention_time_ms=2**63 - 1,
        topics=[api.OffsetCommitRequestTopic(name=PLAIN, partitions=[partition])],
    )
    assert talk.ask(request, 4).topics[0].partitions[0].error_code == 0


def test_which_records_a_topic_did_not_take(talk: Talk) -> None:
    records = batch(b"a", b"b", key=None, compression=Compression.GZIP)
    (answer,) = talk.ask(produce_request(talk, COMPACT, records), 9).responses[0].partition_responses
    assert (answer.error_code, answer.log_start_offset) == (87, 0)
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert all(error.batch_index_error_message for error in answer.record_errors)


def test_a_batch_that_is_none_is_refused_without_a_look_at_the_log(talk: Talk) -> None:
    (answer,) = talk.ask(produce_request(talk, COMPACT, b"no batch"), 9).responses[0].partition_responses
    assert (answer.error_code, answer.log_start_offset, answer.record_errors) == (87, -1, [])


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_refused_join_names_no_protocol(talk: Talk, version: int, name: str | None) -> None:
    request = join_request("w-refused")
    request.session_timeout_ms = 1
    answer = talk.ask(request, version)
    assert (answer.error_code, answer.protocol_name) == (26, name)


def test_ids_of_members_begin_with_their_instance(talk: Talk) -> None:
    assert talk.ask(join_request("w-named", instance="i"), 5).member_id.startswith("i-")
    assert talk.ask(join_request("w-unnamed", instance=""), 5).member_id.startswith("-")


def test_a_classic_member_of_a_consumer_group_has_a_bare_id(talk: Talk) -> None:
    answer = talk.ask(join_request("w-consumer"), 5)
    assert answer.error_code == 79
    assert len(answer.member_id) == 36


def test_types_of_groups_are_in_lower_case(talk: Talk) -> None:
    groups = talk.ask(D.list_groups.ListGroupsRequest(), 5).groups
    assert {group.group_type for group in groups} == {"classic", "consumer"}


def test_a_group_without_a_name(talk: Talk) -> None:
    described = D.consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[""])
    assert talk.ask(described, 1).groups[0].error_code == 24
    assert talk.ask(D.offset_delete.OffsetDeleteRequest(group_id=""), 0).error_code == 24


def test_time_that_is_over(talk: Talk) -> None:
    api = D.create_topics
    topic = api.CreatableTopic(name="w-too-late", num_partitions=1, replication_factor=1)
    answer = talk.ask(api.CreateTopicsRequest(topics=[topic], timeout_ms=-1), 7)
    assert answer.topics[0].error_code == 7
    look = D.metadata.MetadataRequest(topics=[D.metadata.MetadataRequestTopic(name="w-too-late")])
    look.allow_auto_topic_creation = False
    assert talk.ask(look, 12).topics[0].error_code == 3


def test_names_beside_ids_are_not_looked_at(talk: Talk) -> None:
    api = D.metadata
    topics = [
        api.MetadataRequestTopic(name=COMPACT),
        api.MetadataRequestTopic(name=None, topic_id=talk.topic_id(PLAIN)),
    ]
    answer = talk.ask(api.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
    assert [topic.name for topic in answer.topics] == [PLAIN]


@pytest.mark.parametrize("version", [10, 12])
def test_a_topic_with_neither_name_nor_id_spoils_the_request(talk: Talk, version: int) -> None:
    api = D.metadata
    topics = [api.MetadataRequestTopic(name=PLAIN), api.MetadataRequestTopic(name=None)]
    answer = talk.ask(api.MetadataRequest(topics=topics), version)
    assert [topic.error_code for topic in answer.topics] == [42, 42]
    assert (answer.brokers, answer.controller_id, answer.cluster_id) == ([], -1, None)


def test_a_topic_by_name_and_by_id_is_refused_once(talk: Talk) -> None:
    api = D.delete_topics
    topic_id = talk.topic_id(PLAIN)
    states = [api.DeleteTopicState(name=PLAIN), api.DeleteTopicState(name=None, topic_id=topic_id)]
    (answer,) = talk.ask(api.DeleteTopicsRequest(topics=states, timeout_ms=1000), 6).responses
    assert (answer.name, answer.topic_id, answer.error_code) == (PLAIN, topic_id, 42)


def test_topics_without_partitions_are_not_answered(talk: Talk) -> None:
    offsets = D.list_offsets
    asked = offsets.ListOffsetsRequest(replica_id=-1, topics=[offsets.ListOffsetsTopic(name=PLAIN)])
    assert talk.ask(asked, 7).topics == []
    records = D.delete_records
    deleted = records.DeleteRecordsRequest(topics=[records.DeleteRecordsTopic(name=PLAIN)], timeout_ms=1000)
    assert talk.ask(deleted, 2).topics == []


def test_a_transaction_ended_twice_in_a_request_is_told_once(talk: Talk) -> None:
    api = D.write_txn_markers
    producer_id, epoch = talk.kept["done producer"]
    topics = [api.WritableTxnMarkerTopic(name=PLAIN, partition_indexes=[0])]
    marker = api.WritableTxnMarker(
        producer_id=producer_id, producer_epoch=epoch, transaction_result=False, topics=topics, coordinator_epoch=0
    )
    answer = talk.ask(api.WriteTxnMarkersRequest(markers=[marker, marker]), 1)
    assert [len(result.topics) for result in answer.markers] == [1]
