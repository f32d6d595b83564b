"""Creates, deletes and grows topics: which requests are granted, with which replicas, and why the others
are not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from oncelog.broker.metadata.image import metric_name
from oncelog.broker.metadata.keys import TopicRecord, encode_topic, partition_key, topic_key
from oncelog.broker.metadata.plans.placement import place_replicas
from oncelog.broker.metadata.plans.plan import OK, Outcome, Plan, compare_written
from oncelog.broker.metadata.store import Delete, Put
from oncelog.broker.metadata.topic_names import CLUSTER_METADATA_TOPIC, check_no_collision, check_topic_name
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from oncelog.broker.metadata.image import MetadataImage, TopicImage

    ConfigCheck = Callable[[Mapping[str, str]], str | None]
    """Says in one line why the configs of a topic are refused, or returns None."""

DEFAULT = -1
NO_TOPIC_ID = bytes(16)


class TopicLimits(NamedTuple):
    """What the broker's configuration says about new topics."""

    default_partition_count: int = 1
    default_replication_factor: int = 1
    partitions_per_request_max: int = 10_000
    partitions_max: int = 200_000


class NewTopic(NamedTuple):
    """`assignments` gives the brokers of each partition by hand; then both counts must be DEFAULT."""

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


class CreatedTopic(NamedTuple):
    name: str
    outcome: Outcome
    topic_id: bytes = NO_TOPIC_ID
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    configs: Mapping[str, str] = {}


class TopicSelector(NamedTuple):
    """Either a name, or None and an id."""

    name: str | None
    topic_id: bytes = NO_TOPIC_ID


class DeletedTopic(NamedTuple):
    name: str | None
    topic_id: bytes
    outcome: Outcome


class MorePartitions(NamedTuple):
    """The new total, and the brokers of the added partitions, or None to let the controller choose."""

    name: str
    partition_count: int
    assignments: Sequence[Sequence[int]] | None = None


class GrownTopic(NamedTuple):
    name: str
    outcome: Outcome


def plan_create_topics(
    image: MetadataImage,
    topics: Sequence[NewTopic],
    *,
    limits: TopicLimits,
    check_configs: ConfigCheck,
    topic_ids: Sequence[bytes],
    placement_start: int,
    validate_only: bool = False,
) -> Plan[list[CreatedTopic]]:
    """`topic_ids` has a fresh random id for each topic, `placement_start` is a random number.

    A name that occurs twice is refused once, as Kafka does, and none of its occurrences is created.
    """
    names = Counter(topic.name for topic in topics)
    excessive = _total_requested(topics, limits) > limits.partitions_per_request_max
    creator = _TopicCreator(image, limits, check_configs)
    results: dict[str, CreatedTopic] = {}
    writes: list[Put] = []
    for offset, (topic, topic_id) in enumerate(zip(topics, topic_ids, strict=True)):
        try:
            if names[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if excessive:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            record = creator.create(topic, topic_id, placement_start + offset)
        except KafkaError as error:
            results[topic.name] = CreatedTopic(topic.name, Outcome.refused(error))
        else:
            results[topic.name] = CreatedTopic(
                topic.name, OK, topic_id, len(record.replicas), len(record.replicas[0]), record.configs
            )
            writes.append(Put(topic_key(topic.name), encode_topic(record)))
    if validate_only:
        writes = []
    return Plan(list(results.values()), writes, compare_written(image, writes))


def plan_delete_topics(image: MetadataImage, selectors: Sequence[TopicSelector]) -> Plan[list[DeletedTopic]]:
    """A topic that is selected twice, even once by name and once by id, is refused and stays."""
    topics = [_select(image, selector) for selector in selectors]
    selected = Counter(topic.name for topic in topics if topic is not None)
    asked = Counter(selectors)
    results: dict[TopicSelector, DeletedTopic] = {}
    writes: list[Delete] = []
    for selector, topic in zip(selectors, topics, strict=True):
        try:
            if asked[selector] > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Duplicate topic name." if selector.name is not None else "Duplicate topic id.",
                )
            _check_selected(selector, topic)
            assert topic is not None
            if selected[topic.name] > 1:
                selector = TopicSelector(topic.name, topic.id)
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
        except KafkaError as error:
            results[selector] = DeletedTopic(selector.name, selector.topic_id, Outcome.refused(error))
        else:
            results[selector] = DeletedTopic(topic.name, topic.id, OK)
            writes.append(Delete(topic_key(topic.name)))
            writes += [Delete(partition_key(topic.id, n)) for n in image.partition_states.get(topic.id, ())]
    return Plan(list(results.values()), writes, compare_written(image, writes))


def plan_create_partitions(
    image: MetadataImage,
    topics: Sequence[MorePartitions],
    *,
    limits: TopicLimits,
    placement_start: int,
    validate_only: bool = False,
) -> Plan[list[GrownTopic]]:
    names = Counter(topic.name for topic in topics)
    results: dict[str, GrownTopic] = {}
    writes: list[Put] = []
    partition_count = image.partition_count
    added_in_request = 0
    for wanted in topics:
        try:
            if names[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = image.topic(wanted.name)
            if topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
                )
            added = wanted.partition_count - len(topic.partitions)
            _check_growth(topic, wanted)
            if added_in_request + added > limits.partitions_per_request_max:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            _check_partitions_max(partition_count + added, limits)
            replicas = _added_replicas(image, topic, wanted, placement_start)
        except KafkaError as error:
            results[wanted.name] = GrownTopic(wanted.name, Outcome.refused(error))
            continue
        partition_count += added
        added_in_request += added
        all_replicas = [*(partition.replicas for partition in topic.partitions), *replicas]
        record = TopicRecord(topic.id, all_replicas, topic.configs)
        writes.append(Put(topic_key(topic.name), encode_topic(record)))
        results[wanted.name] = GrownTopic(wanted.name, OK)
    if validate_only:
        writes = []
    return Plan(list(results.values()), writes, compare_written(image, writes))


class _TopicCreator:
    """Checks the topics of one request one after the other; each sees those that were granted before it."""

    def __init__(self, image: MetadataImage, limits: TopicLimits, check_configs: ConfigCheck) -> None:
        self._image = image
        self._limits = limits
        self._check_configs = check_configs
        self._partition_count = image.partition_count
        self._granted: dict[str, str] = {}

    def create(self, topic: NewTopic, topic_id: bytes, placement_start: int) -> TopicRecord:
        self._check_name(topic.name)
        configs = self._checked_configs(topic)
        replicas = self._replicas(topic, placement_start)
        self._partition_count += len(replicas)
        self._granted[metric_name(topic.name)] = topic.name
        return TopicRecord(topic_id, replicas, configs)

    def _check_name(self, name: str) -> None:
        if name == CLUSTER_METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        check_topic_name(name)
        if name in self._image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        check_no_collision(self._image, name)
        # Kafka lets two names of one request collide; the reason against it is the same.
        if (granted := self._granted.get(metric_name(name))) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with topic '{granted}'.")

    def _checked_configs(self, topic: NewTopic) -> dict[str, str]:
        missing = [key for key, value in topic.configs if value is None]
        if missing:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}"
            )
        configs = {key: value for key, value in topic.configs if value is not None}
        if (reason := self._check_configs(configs)) is not None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, reason)
        return configs

    def _replicas(self, topic: NewTopic, placement_start: int) -> list[tuple[int, ...]]:
        if topic.assignments:
            for name, value in (
                ("replication factor", topic.replication_factor),
                ("numPartitions", topic.partition_count),
            ):
                if value != DEFAULT:
                    message = f"A manual partition assignment was specified, but {name} was not set to -1."
                    raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            _check_partitions_max(self._partition_count + len(topic.assignments), self._limits)
            return _manual_replicas(self._image, topic.assignments)
        _check_counts(topic)
        count = topic.partition_count
        if count == DEFAULT:
            count = self._limits.default_partition_count
        factor = topic.replication_factor
        if factor == DEFAULT:
            factor = self._limits.default_replication_factor
        _check_partitions_max(self._partition_count + count, self._limits)
        return place_replicas(self._image.brokers.values(), count, factor, placement_start)


def _total_requested(topics: Sequence[NewTopic], limits: TopicLimits) -> int:
    total = 0
    for topic in topics:
        count = limits.default_partition_count if topic.partition_count == DEFAULT else topic.partition_count
        total += len(topic.assignments) or max(0, count)
    return total


def _check_counts(topic: NewTopic) -> None:
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partition_count < DEFAULT or topic.partition_count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value. It must be larger than 0, or -1 to use the"
            " default value.",
        )


def _check_partitions_max(count: int, limits: TopicLimits) -> None:
    if count > limits.partitions_max:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The cluster would have {count} partitions, more than the limit of {limits.partitions_max}.",
        )


def _manual_replicas(image: MetadataImage, assignments: Sequence[tuple[int, Sequence[int]]]) -> list[tuple[int, ...]]:
    by_partition: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for partition, brokers in assignments:
        if partition in by_partition:
            raise _invalid_assignment(f"Found multiple manual partition assignments for partition {partition}")
        check_assignment(image, brokers, factor)
        factor = len(brokers)
        by_partition[partition] = tuple(brokers)
    if sorted(by_partition) != list(range(len(by_partition))):
        raise _invalid_assignment("partitions should be a consecutive 0-based integer sequence")
    return [by_partition[partition] for partition in range(len(by_partition))]


def check_assignment(image: MetadataImage, brokers: Sequence[int], factor: int | None = None) -> None:
    if not brokers:
        raise _invalid_assignment("The manual partition assignment includes an empty replica list.")
    for broker in brokers:
        if broker not in image.brokers:
            raise _invalid_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
    for broker in brokers:
        if brokers.count(broker) > 1:
            raise _invalid_assignment(f"The manual partition assignment includes the broker {broker} more than once.")
    if factor is not None and len(brokers) != factor:
        raise _invalid_assignment(
            f"The manual partition assignment includes a partition with {len(brokers)} replica(s), but other"
            f" partitions have {factor}."
        )


def _check_growth(topic: TopicImage, wanted: MorePartitions) -> None:
    present = len(topic.partitions)
    if wanted.partition_count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.partition_count < present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {wanted.partition_count} would not"
            " be an increase.",
        )
    added = wanted.partition_count - present
    if wanted.assignments is not None and len(wanted.assignments) != added:
        raise _invalid_assignment(
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were"
            " specified."
        )
    if topic.internal:
        # The number decides which partition a group or a transactional id is in. Kafka grants this, and loses them.
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The internal topic {topic.name} keeps its {present} partition(s): with more of them, groups and"
            " transactional ids would be looked for in partitions that do not have them.",
        )


def _added_replicas(
    image: MetadataImage, topic: TopicImage, wanted: MorePartitions, placement_start: int
) -> Sequence[tuple[int, ...]]:
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        added = wanted.partition_count - len(topic.partitions)
        return place_replicas(image.brokers.values(), added, factor, placement_start)
    for brokers in wanted.assignments:
        check_assignment(image, brokers, factor)
    return [tuple(brokers) for brokers in wanted.assignments]


def _select(image: MetadataImage, selector: TopicSelector) -> TopicImage | None:
    if selector.name is None:
        return image.topic_by_id(selector.topic_id)
    return image.topic(selector.name) if selector.topic_id == NO_TOPIC_ID else None


def _check_selected(selector: TopicSelector, topic: TopicImage | None) -> None:
    if selector.name is None and selector.topic_id == NO_TOPIC_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if selector.name is not None and selector.topic_id != NO_TOPIC_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if topic is None and selector.name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _invalid_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
