"""Good requests of topics, configs, quotas, and of the broker itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire.good_requests.registry import D, good
from conformance.wire.state import COMPACT, MIXED, PLAIN
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


@good(ApiKey.METADATA)
def _metadata(talk: Talk, _: int) -> Any:
    topics = [D.metadata.MetadataRequestTopic(name=name) for name in (PLAIN, MIXED)]
    return D.metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@good(ApiKey.API_VERSIONS)
def _api_versions(_: Talk, __: int) -> Any:
    return D.api_versions.ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")


@good(ApiKey.CREATE_TOPICS)
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


@good(ApiKey.DELETE_TOPICS)
def _delete_topics(talk: Talk, _: int) -> Any:
    api = D.delete_topics
    name = talk.create_topic(talk.fresh("topic"))
    return api.DeleteTopicsRequest(topics=[api.DeleteTopicState(name=name)], topic_names=[name], timeout_ms=10_000)


@good(ApiKey.DESCRIBE_CONFIGS)
def _describe_configs(_: Talk, __: int) -> Any:
    api = D.describe_configs
    topic = api.DescribeConfigsResource(resource_type=2, resource_name=COMPACT, configuration_keys=None)
    broker = api.DescribeConfigsResource(
        resource_type=4,
        resource_name="1",
        configuration_keys=["num.partitions", "log.retention.ms", "message.max.bytes"],
    )
    return api.DescribeConfigsRequest(resources=[topic, broker], include_synonyms=True)


@good(ApiKey.ALTER_CONFIGS)
def _alter_configs(talk: Talk, _: int) -> Any:
    api = D.alter_configs
    topic = talk.kept.get("altered") or talk.create_topic("w-altered")
    talk.kept["altered"] = topic
    config = api.AlterableConfig(name="segment.ms", value="100000")
    resource = api.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    return api.AlterConfigsRequest(resources=[resource])


@good(ApiKey.ALTER_REPLICA_LOG_DIRS)
def _alter_replica_log_dirs(talk: Talk, _: int) -> Any:
    """To the directory in which the replica is."""
    api = D.alter_replica_log_dirs
    told = talk.ask(D.describe_log_dirs.DescribeLogDirsRequest(topics=[]), 4)
    topic = api.AlterReplicaLogDirTopic(name=PLAIN, partitions=[0])
    return api.AlterReplicaLogDirsRequest(dirs=[api.AlterReplicaLogDir(path=told.results[0].log_dir, topics=[topic])])


@good(ApiKey.DESCRIBE_LOG_DIRS)
def _describe_log_dirs(_: Talk, __: int) -> Any:
    topic = D.describe_log_dirs.DescribableLogDirTopic(topic=COMPACT, partitions=[0])
    return D.describe_log_dirs.DescribeLogDirsRequest(topics=[topic])


@good(ApiKey.CREATE_PARTITIONS)
def _create_partitions(talk: Talk, _: int) -> Any:
    api = D.create_partitions
    topic = api.CreatePartitionsTopic(
        name=talk.create_topic(talk.fresh("topic")),
        count=2,
        assignments=[api.CreatePartitionsAssignment(broker_ids=[1])],
    )
    return api.CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)


@good(ApiKey.ELECT_LEADERS)
def _elect_leaders(_: Talk, __: int) -> Any:
    partitions = D.elect_leaders.TopicPartitions(topic=PLAIN, partitions=[0])
    return D.elect_leaders.ElectLeadersRequest(topic_partitions=[partitions], timeout_ms=5000)


@good(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def _incremental_alter_configs(talk: Talk, _: int) -> Any:
    api = D.incremental_alter_configs
    topic = talk.kept.get("altered") or talk.create_topic("w-altered")
    talk.kept["altered"] = topic
    config = api.AlterableConfig(name="segment.ms", config_operation=0, value="200000")
    resource = api.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    return api.IncrementalAlterConfigsRequest(resources=[resource])


@good(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def _alter_partition_reassignments(_: Talk, __: int) -> Any:
    """To the replica that the partition has."""
    api = D.alter_partition_reassignments
    topic = api.ReassignableTopic(name=PLAIN, partitions=[api.ReassignablePartition(partition_index=0, replicas=[1])])
    return api.AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[topic])


@good(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def _list_partition_reassignments(_: Talk, __: int) -> Any:
    api = D.list_partition_reassignments
    topic = api.ListPartitionReassignmentsTopics(name=PLAIN, partition_indexes=[0])
    return api.ListPartitionReassignmentsRequest(timeout_ms=5000, topics=[topic])


@good(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def _describe_client_quotas(_: Talk, __: int) -> Any:
    api = D.describe_client_quotas
    component = api.ComponentData(entity_type="client-id", match_type=0, match="w-client")
    return api.DescribeClientQuotasRequest(components=[component])


@good(ApiKey.ALTER_CLIENT_QUOTAS)
def _alter_client_quotas(_: Talk, __: int) -> Any:
    api = D.alter_client_quotas
    entity = [api.EntityData(entity_type="client-id", entity_name="w-client")]
    operation = api.OpData(key="producer_byte_rate", value=1e9, remove=False)
    return api.AlterClientQuotasRequest(entries=[api.RequestEntryData(entity=entity, ops=[operation])])


@good(ApiKey.DESCRIBE_QUORUM)
def _describe_quorum(_: Talk, __: int) -> Any:
    api = D.describe_quorum
    topic = api.RequestTopicData(
        topic_name="__cluster_metadata", partitions=[api.RequestPartitionData(partition_index=0)]
    )
    return api.DescribeQuorumRequest(topics=[topic])


@good(ApiKey.UPDATE_FEATURES)
def _update_features(_: Talk, __: int) -> Any:
    api = D.update_features
    update = api.FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)
    return api.UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update], validate_only=True)


@good(ApiKey.DESCRIBE_CLUSTER)
def _describe_cluster(_: Talk, __: int) -> Any:
    return D.describe_cluster.DescribeClusterRequest(endpoint_type=1)


@good(ApiKey.UNREGISTER_BROKER)
def _unregister_broker(_: Talk, __: int) -> Any:
    """Of a broker that is not there: the only one that is there answers the next request."""
    return D.unregister_broker.UnregisterBrokerRequest(broker_id=9)


@good(ApiKey.LIST_CONFIG_RESOURCES)
def _list_config_resources(_: Talk, __: int) -> Any:
    return D.list_config_resources.ListConfigResourcesRequest(resource_types=[4])


@good(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def _describe_topic_partitions(_: Talk, __: int) -> Any:
    api = D.describe_topic_partitions
    topics = [api.TopicRequest(name=name) for name in (MIXED, PLAIN)]
    return api.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2)
