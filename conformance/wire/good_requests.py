"""For each API a good request over the prepared state, from which the bad ones are made.

A request that uses its state up makes a state of its own each time, with names that nobody used before. Fields
that a version does not have are not sent, thus one request serves all versions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from conformance.wire import state
from conformance.wire.state import ABSENT, CLASSIC, COMPACT, CONSUMER, DONE, EMPTY, MIXED, OPEN, PLAIN, TRIMMED
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.messages import request_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.wire.talk import Talk
    from oncelog.protocol.schema import Message

Maker: TypeAlias = "Callable[[Talk, int], Any]"

MAKERS: dict[ApiKey, Maker] = {}


def good_request(api: ApiKey, talk: Talk, version: int) -> Message:
    """An API without a maker is asked with the defaults of its declaration."""
    maker = MAKERS.get(api)
    return maker(talk, version) if maker is not None else request_class(api)()


def _good(api: ApiKey) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        MAKERS[api] = maker
        return maker

    return register


class _Declarations:
    """`D.fetch.FetchTopic`: the declarations of an API, without forty import statements."""

    def __getattr__(self, stem: str) -> Any:
        return import_module(f"oncelog.protocol.messages.{stem}")


D = _Declarations()


@_good(ApiKey.PRODUCE)
def _produce(talk: Talk, _: int) -> Any:
    topic = talk.create_topic(talk.fresh("topic"))
    return state.produce_request(talk, topic, state.batch(b"a", b"b"))


@_good(ApiKey.FETCH)
def _fetch(talk: Talk, _: int) -> Any:
    partitions = [D.fetch.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)]
    topics = [
        D.fetch.FetchTopic(topic=name, topic_id=talk.topic_id(name), partitions=partitions) for name in (PLAIN, MIXED)
    ]
    return D.fetch.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=topics)


@_good(ApiKey.LIST_OFFSETS)
def _list_offsets(_: Talk, __: int) -> Any:
    api = D.list_offsets
    partition = api.ListOffsetsPartition(partition_index=0, timestamp=state.TIME_MS + 1)
    return api.ListOffsetsRequest(
        replica_id=-1, timeout_ms=1000, topics=[api.ListOffsetsTopic(name=PLAIN, partitions=[partition])]
    )


@_good(ApiKey.METADATA)
def _metadata(talk: Talk, _: int) -> Any:
    topics = [D.metadata.MetadataRequestTopic(name=name) for name in (PLAIN, MIXED)]
    return D.metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@_good(ApiKey.OFFSET_COMMIT)
def _offset_commit(talk: Talk, _: int) -> Any:
    api = D.offset_commit
    partition = api.OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="noted")
    topic = api.OffsetCommitRequestTopic(name=PLAIN, topic_id=talk.topic_id(PLAIN), partitions=[partition])
    return api.OffsetCommitRequest(
        group_id=CLASSIC,
        generation_id_or_member_epoch=1,
        member_id=talk.kept["classic member"],
        retention_time_ms=-1,
        topics=[topic],
    )


@_good(ApiKey.OFFSET_FETCH)
def _offset_fetch(talk: Talk, _: int) -> Any:
    api = D.offset_fetch
    return api.OffsetFetchRequest(
        group_id=EMPTY,
        topics=[api.OffsetFetchRequestTopic(name=PLAIN, partition_indexes=[0, 1])],
        groups=[
            api.OffsetFetchRequestGroup(
                group_id=EMPTY,
                topics=[
                    api.OffsetFetchRequestTopics(name=PLAIN, topic_id=talk.topic_id(PLAIN), partition_indexes=[0, 1])
                ],
            )
        ],
    )


@_good(ApiKey.FIND_COORDINATOR)
def _find_coordinator(_: Talk, __: int) -> Any:
    return D.find_coordinator.FindCoordinatorRequest(key=CLASSIC, coordinator_keys=[CLASSIC, EMPTY])


@_good(ApiKey.JOIN_GROUP)
def _join_group(talk: Talk, _: int) -> Any:
    return state.join_request(talk.fresh("group"))


@_good(ApiKey.HEARTBEAT)
def _heartbeat(talk: Talk, _: int) -> Any:
    return D.heartbeat.HeartbeatRequest(group_id=CLASSIC, generation_id=1, member_id=talk.kept["classic member"])


@_good(ApiKey.LEAVE_GROUP)
def _leave_group(talk: Talk, _: int) -> Any:
    group = talk.fresh("group")
    member = state.join_alone(talk, group)
    identity = D.leave_group.MemberIdentity(member_id=member)
    return D.leave_group.LeaveGroupRequest(group_id=group, member_id=member, members=[identity])


@_good(ApiKey.SYNC_GROUP)
def _sync_group(talk: Talk, _: int) -> Any:
    group = talk.fresh("group")
    answer = talk.ask(state.join_request(group), 3)
    assignment = D.sync_group.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"given")
    return D.sync_group.SyncGroupRequest(
        group_id=group,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assignment],
    )


@_good(ApiKey.DESCRIBE_GROUPS)
def _describe_groups(_: Talk, __: int) -> Any:
    return D.describe_groups.DescribeGroupsRequest(groups=[CLASSIC, EMPTY, CONSUMER, ABSENT])


@_good(ApiKey.LIST_GROUPS)
def _list_groups(_: Talk, __: int) -> Any:
    return D.list_groups.ListGroupsRequest(states_filter=["Stable", "Assigning"], types_filter=["consumer"])


@_good(ApiKey.API_VERSIONS)
def _api_versions(_: Talk, __: int) -> Any:
    return D.api_versions.ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")


@_good(ApiKey.CREATE_TOPICS)
def _create_topics(talk: Talk, _: int) -> Any:
    api = D.create_topics
    topic = api.CreatableTopic(
        name=talk.fresh("topic"),
        num_partitions=2,
        replication_factor=1,
        configs=[api.CreatableTopicConfig(name="segment.bytes", value="1048576")],
    )
    assigned = api.CreatableTopic(
        name=talk.fresh("topic"),
        num_partitions=-1,
        replication_factor=-1,
        assignments=[api.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
    )
    return api.CreateTopicsRequest(topics=[assigned, topic], timeout_ms=10_000)


@_good(ApiKey.DELETE_TOPICS)
def _delete_topics(talk: Talk, _: int) -> Any:
    api = D.delete_topics
    name = talk.create_topic(talk.fresh("topic"))
    return api.DeleteTopicsRequest(topics=[api.DeleteTopicState(name=name)], topic_names=[name], timeout_ms=10_000)


@_good(ApiKey.DELETE_RECORDS)
def _delete_records(_: Talk, __: int) -> Any:
    api = D.delete_records
    partition = api.DeleteRecordsPartition(partition_index=0, offset=1)
    topic = api.DeleteRecordsTopic(name=TRIMMED, partitions=[partition])
    return api.DeleteRecordsRequest(topics=[topic], timeout_ms=5000)


@_good(ApiKey.INIT_PRODUCER_ID)
def _init_producer_id(talk: Talk, _: int) -> Any:
    return D.init_producer_id.InitProducerIdRequest(
        transactional_id=talk.fresh("id"), transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )


@_good(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def _offset_for_leader_epoch(_: Talk, __: int) -> Any:
    api = D.offset_for_leader_epoch
    partition = api.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return api.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[api.OffsetForLeaderTopic(topic=PLAIN, partitions=[partition])]
    )


@_good(ApiKey.ADD_PARTITIONS_TO_TXN)
def _add_partitions_to_txn(talk: Talk, _: int) -> Any:
    api = D.add_partitions_to_txn
    name = talk.fresh("id")
    producer_id, epoch = state.init_producer(talk, name)
    topics = [api.AddPartitionsToTxnTopic(name=PLAIN, partitions=[1])]
    return api.AddPartitionsToTxnRequest(
        transactions=[
            api.AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, topics=topics
            )
        ],
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )


@_good(ApiKey.ADD_OFFSETS_TO_TXN)
def _add_offsets_to_txn(talk: Talk, _: int) -> Any:
    name = talk.fresh("id")
    producer_id, epoch = state.init_producer(talk, name)
    return D.add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=EMPTY
    )


@_good(ApiKey.END_TXN)
def _end_txn(talk: Talk, _: int) -> Any:
    name = talk.fresh("id")
    producer = state.init_producer(talk, name)
    state.add_partition(talk, name, producer, talk.kept.get("ended") or _ended(talk))
    return D.end_txn.EndTxnRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=True
    )


def _ended(talk: Talk) -> str:
    talk.kept["ended"] = talk.create_topic("w-ended")
    return str(talk.kept["ended"])


@_good(ApiKey.WRITE_TXN_MARKERS)
def _write_txn_markers(talk: Talk, _: int) -> Any:
    api = D.write_txn_markers
    producer_id, epoch = state.init_producer(talk, None)
    topic = api.WritableTxnMarkerTopic(name=talk.kept.get("ended") or _ended(talk), partition_indexes=[0])
    marker = api.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=True,
        topics=[topic],
        coordinator_epoch=0,
    )
    return api.WriteTxnMarkersRequest(markers=[marker])


@_good(ApiKey.TXN_OFFSET_COMMIT)
def _txn_offset_commit(talk: Talk, version: int) -> Any:
    api = D.txn_offset_commit
    name, group = talk.fresh("id"), talk.fresh("group")
    producer_id, epoch = state.init_producer(talk, name)
    if version < 5:
        talk.ask(
            D.add_offsets_to_txn.AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
            ),
            3,
        )
    partition = api.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")
    return api.TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        generation_id=-1,
        topics=[api.TxnOffsetCommitRequestTopic(name=PLAIN, partitions=[partition])],
    )


@_good(ApiKey.DESCRIBE_CONFIGS)
def _describe_configs(_: Talk, __: int) -> Any:
    api = D.describe_configs
    topic = api.DescribeConfigsResource(resource_type=2, resource_name=COMPACT, configuration_keys=None)
    broker = api.DescribeConfigsResource(
        resource_type=4,
        resource_name="1",
        configuration_keys=["num.partitions", "log.retention.ms", "message.max.bytes"],
    )
    return api.DescribeConfigsRequest(resources=[topic, broker], include_synonyms=True)


@_good(ApiKey.ALTER_CONFIGS)
def _alter_configs(talk: Talk, _: int) -> Any:
    api = D.alter_configs
    topic = talk.kept.get("altered") or talk.create_topic("w-altered")
    talk.kept["altered"] = topic
    config = api.AlterableConfig(name="segment.ms", value="100000")
    resource = api.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    return api.AlterConfigsRequest(resources=[resource])


@_good(ApiKey.DESCRIBE_LOG_DIRS)
def _describe_log_dirs(_: Talk, __: int) -> Any:
    topic = D.describe_log_dirs.DescribableLogDirTopic(topic=COMPACT, partitions=[0])
    return D.describe_log_dirs.DescribeLogDirsRequest(topics=[topic])


@_good(ApiKey.CREATE_PARTITIONS)
def _create_partitions(talk: Talk, _: int) -> Any:
    api = D.create_partitions
    topic = api.CreatePartitionsTopic(
        name=talk.create_topic(talk.fresh("topic")),
        count=2,
        assignments=[api.CreatePartitionsAssignment(broker_ids=[1])],
    )
    return api.CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)


@_good(ApiKey.DELETE_GROUPS)
def _delete_groups(talk: Talk, _: int) -> Any:
    group = talk.fresh("group")
    state.commit(talk, group)
    return D.delete_groups.DeleteGroupsRequest(groups_names=[group, CLASSIC, CONSUMER])


@_good(ApiKey.ELECT_LEADERS)
def _elect_leaders(_: Talk, __: int) -> Any:
    partitions = D.elect_leaders.TopicPartitions(topic=PLAIN, partitions=[0])
    return D.elect_leaders.ElectLeadersRequest(topic_partitions=[partitions], timeout_ms=5000)


@_good(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def _incremental_alter_configs(talk: Talk, _: int) -> Any:
    api = D.incremental_alter_configs
    topic = talk.kept.get("altered") or talk.create_topic("w-altered")
    talk.kept["altered"] = topic
    config = api.AlterableConfig(name="segment.ms", config_operation=0, value="200000")
    resource = api.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    return api.IncrementalAlterConfigsRequest(resources=[resource])


@_good(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def _list_partition_reassignments(_: Talk, __: int) -> Any:
    api = D.list_partition_reassignments
    topic = api.ListPartitionReassignmentsTopics(name=PLAIN, partition_indexes=[0])
    return api.ListPartitionReassignmentsRequest(timeout_ms=5000, topics=[topic])


@_good(ApiKey.OFFSET_DELETE)
def _offset_delete(talk: Talk, _: int) -> Any:
    api = D.offset_delete
    group = talk.fresh("group")
    state.commit(talk, group)
    partition = api.OffsetDeleteRequestPartition(partition_index=0)
    return api.OffsetDeleteRequest(
        group_id=group, topics=[api.OffsetDeleteRequestTopic(name=PLAIN, partitions=[partition])]
    )


@_good(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def _describe_client_quotas(_: Talk, __: int) -> Any:
    api = D.describe_client_quotas
    component = api.ComponentData(entity_type="client-id", match_type=0, match="w-client")
    return api.DescribeClientQuotasRequest(components=[component])


@_good(ApiKey.ALTER_CLIENT_QUOTAS)
def _alter_client_quotas(_: Talk, __: int) -> Any:
    api = D.alter_client_quotas
    entity = [api.EntityData(entity_type="client-id", entity_name="w-client")]
    operation = api.OpData(key="producer_byte_rate", value=1e9, remove=False)
    return api.AlterClientQuotasRequest(entries=[api.RequestEntryData(entity=entity, ops=[operation])])


@_good(ApiKey.UPDATE_FEATURES)
def _update_features(_: Talk, __: int) -> Any:
    api = D.update_features
    update = api.FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)
    return api.UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update], validate_only=True)


@_good(ApiKey.DESCRIBE_CLUSTER)
def _describe_cluster(_: Talk, __: int) -> Any:
    return D.describe_cluster.DescribeClusterRequest(endpoint_type=1)


@_good(ApiKey.DESCRIBE_PRODUCERS)
def _describe_producers(_: Talk, __: int) -> Any:
    topic = D.describe_producers.TopicRequest(name=MIXED, partition_indexes=[0])
    return D.describe_producers.DescribeProducersRequest(topics=[topic])


@_good(ApiKey.DESCRIBE_TRANSACTIONS)
def _describe_transactions(_: Talk, __: int) -> Any:
    return D.describe_transactions.DescribeTransactionsRequest(transactional_ids=[OPEN, DONE, ABSENT])


@_good(ApiKey.LIST_TRANSACTIONS)
def _list_transactions(talk: Talk, _: int) -> Any:
    return D.list_transactions.ListTransactionsRequest(
        state_filters=["Ongoing"],
        producer_id_filters=[talk.kept["open producer"][0]],
        duration_filter=-1,
        transactional_id_pattern="w-.*",
    )


@_good(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def _consumer_group_heartbeat(talk: Talk, _: int) -> Any:
    return D.consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=talk.fresh("group"),
        member_id="BBBBBBBBBBBBBBBBBBBBBB",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=[PLAIN],
        server_assignor="uniform",
        topic_partitions=[],
    )


@_good(ApiKey.CONSUMER_GROUP_DESCRIBE)
def _consumer_group_describe(_: Talk, __: int) -> Any:
    return D.consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[CONSUMER, CLASSIC, ABSENT])


@_good(ApiKey.LIST_CONFIG_RESOURCES)
def _list_config_resources(_: Talk, __: int) -> Any:
    return D.list_config_resources.ListConfigResourcesRequest(resource_types=[4])


@_good(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def _describe_topic_partitions(_: Talk, __: int) -> Any:
    api = D.describe_topic_partitions
    topics = [api.TopicRequest(name=name) for name in (MIXED, PLAIN)]
    return api.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2)
