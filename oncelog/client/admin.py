"""Topics and their configuration, as the command line needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oncelog.client.cluster import Backoff, Cluster, TopicMetadata, TopicPartition
from oncelog.client.counting import count_records
from oncelog.client.errors import UnknownTopic, known_code
from oncelog.client.offsets import EARLIEST, LATEST, Isolation, OffsetAndTimestamp, list_offsets
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from oncelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncelog.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from oncelog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from oncelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

BROKER_DEFAULT = -1
COUNTED_SIZE_BYTES_MAX = 1024 * 1024
COUNTED_OFFSETS_MAX = 1000
"""Where brokers do not tell sizes."""
TOPIC_RESOURCE = 2
CONFIG_SET = 0
CONFIG_DELETE = 1
TOPIC_CONFIG_SOURCE = 1


class PartitionState(NamedTuple):
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    start_offset: int
    end_offset: int
    size_bytes: int | None
    """Of the largest replica; None if the brokers do not tell."""
    record_count: int | None
    """What a read_committed consumer gets; None if there is too much to count, and then at most the offsets."""


class TopicState(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: list[PartitionState]


class ConfigValue(NamedTuple):
    name: str
    value: str | None
    is_default: bool


class Admin:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> TopicMetadata:
        """Returns when the topic can be used."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
        )

        def ask() -> None:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=self.cluster.timeout_ms)
            for result in self.cluster.ask_controller(request, CreateTopicsResponse).topics:
                _check(result.error_code, result.error_message, name)

        self._change(ask)
        return self._await_topic(name, partitions)

    def delete_topic(self, name: str) -> None:
        def ask() -> None:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name)],
                topic_names=[name],
                timeout_ms=self.cluster.timeout_ms,
            )
            for result in self.cluster.ask_controller(request, DeleteTopicsResponse).responses:
                _check(result.error_code, result.error_message, name)

        self._change(ask)
        self.cluster.forget(name)

    def create_partitions(self, name: str, total: int) -> None:
        def ask() -> None:
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
                timeout_ms=self.cluster.timeout_ms,
                validate_only=False,
            )
            for result in self.cluster.ask_controller(request, CreatePartitionsResponse).results:
                _check(result.error_code, result.error_message, name)

        self._change(ask)
        self.cluster.forget(name)
        self._await_topic(name, total)

    def alter_configs(self, name: str, *, values: Mapping[str, str], deleted: Sequence[str] = ()) -> None:
        changes = [AlterableConfig(name=key, config_operation=CONFIG_SET, value=value) for key, value in values.items()]
        changes += [AlterableConfig(name=key, config_operation=CONFIG_DELETE, value=None) for key in deleted]
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=changes)

        def ask() -> None:
            request = IncrementalAlterConfigsRequest(resources=[resource])
            for result in self.cluster.ask_any(request, IncrementalAlterConfigsResponse).responses:
                _check(result.error_code, result.error_message, name)

        self._change(ask)

    def describe_configs(self, name: str) -> list[ConfigValue]:
        resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource])
        configs: list[ConfigValue] = []
        for result in self.cluster.ask_any(request, DescribeConfigsResponse).results:
            _check(result.error_code, result.error_message, name)
            configs += [
                ConfigValue(each.name, each.value, each.config_source != TOPIC_CONFIG_SOURCE) for each in result.configs
            ]
        return sorted(configs)

    def describe_topics(self, name: str | None = None) -> list[TopicState]:
        """One topic, or all of them, with offsets and sizes."""
        if name is None:
            topics = self.cluster.topics()
        else:
            self.cluster.forget(name)
            topics = [self.cluster.topic(name)]
        led = {
            (topic.name, index): EARLIEST
            for topic in topics
            for index, partition in topic.partitions.items()
            if partition.leader_id >= 0
        }
        starts = list_offsets(self.cluster, led) if led else {}
        ends = list_offsets(self.cluster, dict.fromkeys(led, LATEST)) if led else {}
        sizes = self._sizes()
        counts = self._counts(starts, ends, sizes)
        return [
            TopicState(
                topic.name,
                topic.topic_id,
                topic.is_internal,
                [
                    PartitionState(
                        index,
                        partition.leader_id,
                        partition.leader_epoch,
                        partition.replicas,
                        partition.isr,
                        partition.offline,
                        starts[topic.name, index].offset if (topic.name, index) in starts else -1,
                        ends[topic.name, index].offset if (topic.name, index) in ends else -1,
                        None if sizes is None else sizes.get((topic.name, index), 0),
                        counts.get((topic.name, index)),
                    )
                    for index, partition in topic.partitions.items()
                ],
            )
            for topic in topics
        ]

    def _counts(
        self,
        starts: Mapping[TopicPartition, OffsetAndTimestamp],
        ends: Mapping[TopicPartition, OffsetAndTimestamp],
        sizes: Mapping[TopicPartition, int] | None,
    ) -> dict[TopicPartition, int]:
        """The records of partitions that are small enough to be read for it."""
        distances = {partition: ends[partition].offset - start.offset for partition, start in starts.items()}
        counts = {partition: 0 for partition, distance in distances.items() if not distance}
        if sizes is None:
            small = {partition for partition, distance in distances.items() if distance <= COUNTED_OFFSETS_MAX}
        else:
            small = {partition for partition in distances if sizes.get(partition, 0) <= COUNTED_SIZE_BYTES_MAX}
        wanted = small - counts.keys()
        if wanted:
            stable = list_offsets(self.cluster, dict.fromkeys(wanted, LATEST), isolation=Isolation.READ_COMMITTED)
            ranges = {partition: (starts[partition].offset, stable[partition].offset) for partition in wanted}
            counts |= count_records(self.cluster, ranges)
        return counts

    def _sizes(self) -> dict[TopicPartition, int] | None:
        if not self.cluster.supports(ApiKey.DESCRIBE_LOG_DIRS):
            return None
        sizes: dict[TopicPartition, int] = {}
        for broker_id in self.cluster.brokers:
            connection = self.cluster.connection(broker_id)
            answer = connection.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
            if answer.error_code:
                return None
            for log_dir in answer.results:
                for topic in log_dir.topics:
                    for partition in topic.partitions:
                        where = (topic.name, partition.partition_index)
                        sizes[where] = max(sizes.get(where, 0), partition.partition_size)
        return sizes

    def _change(self, ask: Callable[[], None]) -> None:
        """Repeats only what certainly was not done: the asked broker is not, or no longer, the controller."""
        backoff = Backoff(self.cluster.timeout_ms)
        while True:
            try:
                return ask()
            except KafkaError as error:
                if error.code != ErrorCode.NOT_CONTROLLER or not backoff.wait():
                    raise
                self.cluster.refresh([])

    def _await_topic(self, name: str, partition_count: int) -> TopicMetadata:
        """Metadata follows the controller's decision with a delay; who creates a topic wants to use it."""

        def ask() -> TopicMetadata:
            self.cluster.forget(name)
            try:
                topic = self.cluster.topic(name)
            except UnknownTopic as error:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(error)) from None
            if len(topic.partitions) < partition_count:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name!r} has not all its partitions yet")
            return topic

        return self.cluster.retry(ask)


def _check(code: int, message: str | None, name: str) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(f"there is no topic {name!r}")
    if code:
        raise KafkaError(known_code(code), message or f"topic {name!r}")
