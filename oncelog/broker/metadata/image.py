"""The cluster's metadata at one revision of the store: immutable, and cheap to look things up in.

Requests read one image from beginning to end, so what they see is consistent. `apply` turns the events of
the store into the next image, which shares everything that did not change. The same code makes the first
image from a listing: an entry is an event that put it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from oncelog.broker.metadata import keys
from oncelog.broker.metadata.features import INITIAL_LEVELS
from oncelog.broker.metadata.store import ABSENT, MetadataStoreError
from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from oncelog.broker.metadata.keys import PartitionState, QuotaEntity, ScramCredential, ScramMechanism, TopicRecord
    from oncelog.broker.metadata.store import Event, Snapshot

NO_LEADER = -1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class BrokerImage(NamedTuple):
    """A broker that is registered, thus alive; each listener has the host and port to reach it by."""

    id: int
    rack: str | None
    listeners: Mapping[str, tuple[str, int]]


class PartitionImage(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int


class TopicImage(NamedTuple):
    name: str
    id: bytes
    configs: Mapping[str, str]
    partitions: tuple[PartitionImage, ...]
    internal: bool


class FeaturesImage(NamedTuple):
    """Finalized levels; a feature that is missing is off. The epoch grows with each change of them."""

    levels: Mapping[str, int]
    epoch: int


INITIAL_FEATURES = FeaturesImage(INITIAL_LEVELS, 0)


class _ImageFields(NamedTuple):
    revision: int = 0
    cluster_id: str = ""
    brokers: Mapping[int, BrokerImage] = {}
    topics: Mapping[str, TopicImage] = {}
    topic_names: Mapping[bytes, str] = {}
    """Names by topic id."""
    partition_states: Mapping[bytes, Mapping[int, PartitionState]] = {}
    """By topic id and partition, those that differ from the default; `topics` already includes them."""
    broker_configs: Mapping[str, Mapping[str, str]] = {}
    """By the broker's id in digits; the empty text has the configs of all brokers."""
    group_configs: Mapping[str, Mapping[str, str]] = {}
    client_metrics: Mapping[str, Mapping[str, str]] = {}
    """Settings of subscriptions to metrics of clients, by their name."""
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
    users: Mapping[str, Mapping[ScramMechanism, ScramCredential]] = {}
    """Users that can log in, with their credentials."""
    features: FeaturesImage = INITIAL_FEATURES
    producer_id_next: int = 0
    revisions: Mapping[str, int] = {}
    """Of each key in the store: what a plan compares with."""


class MetadataImage(_ImageFields):
    """Has an attribute dictionary beside the fields, for what is worked out when it is first asked for."""

    @staticmethod
    def from_snapshot(snapshot: Snapshot) -> MetadataImage:
        builder = _Builder(EMPTY_IMAGE)
        for key, value, revision in snapshot.entries:
            builder.add(key, value, revision)
        return builder.build(snapshot.revision)

    def apply(self, events: Iterable[Event]) -> MetadataImage:
        builder = _Builder(self)
        revision = self.revision
        for key, value, revision in events:
            builder.add(key, value, revision)
        return builder.build(revision)

    def topic(self, name: str) -> TopicImage | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def revision_of(self, key: str) -> int:
        return self.revisions.get(key, ABSENT)

    @cached_property
    def controller_id(self) -> int:
        """Every broker can decide; clients, who expect one controller, are sent to the first."""
        return min(self.brokers, default=NO_LEADER)

    @cached_property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    @cached_property
    def topics_by_metric_name(self) -> Mapping[str, str]:
        """Kafka's metrics cannot tell `.` from `_`: names with these in common places exclude each other."""
        return {metric_name(name): name for name in self.topics}


EMPTY_IMAGE = MetadataImage()


def metric_name(topic: str) -> str:
    return topic.replace(".", "_")


class _Builder:
    """Collects events. A mapping of the base is copied when it first changes; topics are made at the end."""

    def __init__(self, base: MetadataImage) -> None:
        self._base = base
        self._fields: dict[str, Any] = {}
        self._records: dict[str, TopicRecord | None] = {}
        self._partitions: dict[bytes, set[int]] = {}

    def add(self, key: str, value: bytes | None, revision: int) -> None:
        try:
            self._decode(key, value, revision)
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataStoreError(f"the metadata store has an unreadable value at {key}: {error}") from error
        revisions = self._mapping("revisions")
        if value is None:
            revisions.pop(key, None)
        else:
            revisions[key] = revision

    def build(self, revision: int) -> MetadataImage:
        for name in self._records:
            self._remove_topic(name)
        for name, record in self._records.items():
            if record is not None:
                self._add_topic(name, record)
        for topic_id, indexes in self._partitions.items():
            self._refresh_partitions(topic_id, indexes)
        return self._base._replace(revision=revision, **self._fields)

    def _decode(self, key: str, value: bytes | None, revision: int) -> None:
        if key.startswith(keys.TOPICS):
            self._records[key.removeprefix(keys.TOPICS)] = None if value is None else keys.decode_topic(value)
        elif key.startswith(keys.PARTITIONS):
            self._set_partition_state(key, value)
        elif key.startswith(keys.BROKERS):
            broker_id = int(key.removeprefix(keys.BROKERS))
            broker = None if value is None else BrokerImage(broker_id, *keys.decode_broker(value))
            self._set("brokers", broker_id, broker)
        elif key.startswith(keys.BROKER_CONFIGS):
            configs = None if value is None else keys.decode_configs(value)
            self._set("broker_configs", keys.parse_broker_configs_key(key), configs)
        elif key.startswith(keys.GROUP_CONFIGS):
            configs = None if value is None else keys.decode_configs(value)
            self._set("group_configs", keys.parse_group_configs_key(key), configs)
        elif key.startswith(keys.CLIENT_METRICS):
            configs = None if value is None else keys.decode_configs(value)
            self._set("client_metrics", keys.parse_client_metrics_key(key), configs)
        elif key.startswith(keys.QUOTAS):
            quotas = None if value is None else keys.decode_quotas(value)
            self._set("quotas", keys.parse_quota_key(key), quotas)
        elif key.startswith(keys.USERS):
            credentials = None if value is None else keys.decode_user(value)
            self._set("users", keys.parse_user_key(key), credentials)
        elif key == keys.FEATURES:
            levels = None if value is None else keys.decode_levels(value)
            self._fields["features"] = INITIAL_FEATURES if levels is None else FeaturesImage(levels, revision)
        elif key == keys.CLUSTER:
            self._fields["cluster_id"] = "" if value is None else keys.decode_cluster(value)
        elif key == keys.PRODUCER_IDS:
            self._fields["producer_id_next"] = 0 if value is None else keys.decode_producer_ids(value)

    def _mapping(self, name: str) -> dict[Any, Any]:
        if name not in self._fields:
            self._fields[name] = dict(getattr(self._base, name))
        mapping: dict[Any, Any] = self._fields[name]
        return mapping

    def _set(self, name: str, key: object, value: object | None) -> None:
        if value is None:
            self._mapping(name).pop(key, None)
        else:
            self._mapping(name)[key] = value

    def _set_partition_state(self, key: str, value: bytes | None) -> None:
        topic_id, index = keys.parse_partition_key(key)
        states = dict(self._states(topic_id))
        if value is None:
            states.pop(index, None)
        else:
            states[index] = keys.decode_partition(value)
        self._set("partition_states", topic_id, states or None)
        self._partitions.setdefault(topic_id, set()).add(index)

    def _states(self, topic_id: bytes) -> Mapping[int, PartitionState]:
        states = self._fields.get("partition_states", self._base.partition_states)
        found: Mapping[int, PartitionState] = states.get(topic_id, {})
        return found

    def _remove_topic(self, name: str) -> None:
        former = self._base.topics.get(name)
        if former is not None:
            self._set("topic_names", former.id, None)
            self._set("topics", name, None)

    def _add_topic(self, name: str, record: TopicRecord) -> None:
        states = self._states(record.id)
        partitions = tuple(
            _partition(index, replicas, states.get(index)) for index, replicas in enumerate(record.replicas)
        )
        topic = TopicImage(name, record.id, record.configs, partitions, name in INTERNAL_TOPICS)
        self._set("topics", name, topic)
        self._set("topic_names", record.id, name)

    def _refresh_partitions(self, topic_id: bytes, indexes: set[int]) -> None:
        name = self._fields.get("topic_names", self._base.topic_names).get(topic_id)
        if name is None or name in self._records:
            return
        topics = self._mapping("topics")
        topic: TopicImage = topics[name]
        partitions, states = list(topic.partitions), self._states(topic_id)
        for index in indexes:
            if index < len(partitions):
                partitions[index] = _partition(index, partitions[index].replicas, states.get(index))
        topics[name] = topic._replace(partitions=tuple(partitions))


def _partition(index: int, replicas: tuple[int, ...], state: PartitionState | None) -> PartitionImage:
    if state is None:
        return PartitionImage(index, replicas, replicas, replicas[0], 0, 0)
    return PartitionImage(index, replicas, state.isr, state.leader, state.leader_epoch, state.partition_epoch)
