"""A cluster as a client sees it: bootstrap, a cache of its metadata, connections by broker, and retries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from oncelog.client.addresses import Address, parse_addresses
from oncelog.client.connection import CLIENT_ID, TIMEOUT_MS, Connection
from oncelog.client.errors import (
    BrokerUnavailable,
    ClientError,
    ConnectionLost,
    RequestTimeout,
    UnknownTopic,
    known_code,
    missing_partition,
)
from oncelog.client.security.options import PLAINTEXT, SecurityOptions
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from oncelog.protocol.primitives import ZERO_UUID
from oncelog.protocol.schema import Message

if TYPE_CHECKING:
    import ssl

RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Codes that may go away by themselves or with fresh metadata."""

NEW_TOPIC_PATIENCE_MS = 500
"""How long an unknown topic may stay unknown: one that was just created takes a moment to be seen."""

BACKOFF_MS_MIN = 20
BACKOFF_MS_MAX = 1_000

M = TypeVar("M", bound=Message)
T = TypeVar("T")

TopicPartition = tuple[str, int]


class PartitionMetadata(NamedTuple):
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class TopicMetadata(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: dict[int, PartitionMetadata]


class Cluster:
    """Use as a context manager; connections are opened on demand and closed at the end."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = CLIENT_ID,
        timeout_ms: int = TIMEOUT_MS,
        security: SecurityOptions = PLAINTEXT,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.cluster_id = ""
        self.controller_id = -1
        self.brokers: dict[int, Address] = {}
        self._bootstrap = parse_addresses(bootstrap)
        self._client_id = client_id
        self._security = security
        self._connections: dict[Address, Connection] = {}
        self._topics: dict[str, TopicMetadata] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- connections -----------------------------------------------------------------------------------------

    def any_connection(self) -> Connection:
        """An open connection, or a new one to the first address that answers."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        failures: list[ClientError] = []
        for address in dict.fromkeys((*self._bootstrap, *self.brokers.values())):
            try:
                return self._connect(address)
            except (BrokerUnavailable, ConnectionLost, RequestTimeout) as error:
                # A broker that is frozen still accepts connections.
                failures.append(error)
        raise type(failures[0])("; ".join(map(str, failures)))

    def connection(self, broker_id: int) -> Connection:
        address = self.brokers.get(broker_id)
        if address is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not known")
        try:
            return self._connect(address)
        except BrokerUnavailable as error:
            raise BrokerUnavailable(f"{error} (broker {broker_id} is advertised at this address)") from None

    def supports(self, api: ApiKey) -> bool:
        return self.any_connection().supports(api)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        from oncelog.client.security.tls import tls_context

        return tls_context(self._security)

    def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = Connection(
                address,
                client_id=self._client_id,
                timeout_ms=self.timeout_ms,
                security=self._security,
                tls=self._tls if self._security.protocol.has_tls else None,
            )
            self._connections[address] = connection
        return connection

    # -- metadata --------------------------------------------------------------------------------------------

    def refresh(self, names: Iterable[str] | None, *, auto_create: bool = False) -> dict[str, MetadataResponseTopic]:
        """Asks for topics (None: all) and keeps what has no error; returns the answers by name."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=auto_create)
        answer = self.any_connection().send(request, MetadataResponse)
        if answer.error_code:
            raise KafkaError(known_code(answer.error_code), "the broker refuses to tell its metadata")
        self.cluster_id = answer.cluster_id or ""
        self.controller_id = answer.controller_id
        self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        found = {topic.name: topic for topic in answer.topics if topic.name is not None}
        for name, topic in found.items():
            if topic.error_code:
                self._topics.pop(name, None)
            else:
                self._topics[name] = _topic_metadata(name, topic)
        return found

    def topics(self) -> list[TopicMetadata]:
        """All topics of the cluster, by name."""
        found = self.refresh(None)
        return [self._topics[name] for name in sorted(found) if not found[name].error_code]

    def topic(self, name: str, *, auto_create: bool = False) -> TopicMetadata:
        """The topic with a leader for each partition, from the cache if it is there.

        A topic that stays unknown is an error; with `auto_create` the broker may make it.
        """
        cached = self._topics.get(name)
        if cached is not None:
            return cached
        patience_ms = self.timeout_ms if auto_create else min(NEW_TOPIC_PATIENCE_MS, self.timeout_ms)
        try:
            return self.retry(lambda: self._ask_topic(name, auto_create), patience_ms=patience_ms)
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(f"there is no topic {name!r}") from None
            raise

    def _ask_topic(self, name: str, auto_create: bool) -> TopicMetadata:
        topic = self.refresh([name], auto_create=auto_create).get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.error_code:
            raise KafkaError(known_code(topic.error_code), f"topic {name!r}")
        metadata = self._topics[name]
        if any(partition.leader_id < 0 for partition in metadata.partitions.values()):
            del self._topics[name]
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"a partition of {name!r} has no leader")
        return metadata

    def topic_name(self, topic_id: bytes, name: str) -> str:
        """The name in an answer, which late versions replace by the topic's id (KIP-516)."""
        if topic_id == ZERO_UUID:
            return name
        for topic in self._topics.values():
            if topic.topic_id == topic_id:
                return topic.name
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the broker answered about a topic that was not asked for")

    def leader_id(self, topic: str, partition: int) -> int:
        if partition not in self.topic(topic).partitions:
            # It may have been added since the topic was asked for.
            self.forget(topic)
        partitions = self.topic(topic).partitions
        if partition not in partitions:
            raise missing_partition(topic, partition, len(partitions))
        return partitions[partition].leader_id

    def forget(self, topic: str) -> None:
        """Metadata of this topic was found to be out of date."""
        self._topics.pop(topic, None)

    # -- requests --------------------------------------------------------------------------------------------

    def ask_any(self, request: Message, response: type[M]) -> M:
        return self.any_connection().send(request, response)

    def ask_controller(self, request: Message, response: type[M]) -> M:
        """Any broker forwards to the controller since KIP-590; older ones want the controller itself."""
        if not self.brokers:
            self.refresh([])
        known = self.controller_id in self.brokers
        return (self.connection(self.controller_id) if known else self.any_connection()).send(request, response)

    def retry(self, action: Callable[[], T], *, patience_ms: int | None = None) -> T:
        """Runs `action` again after errors that may pass; the last error is raised when patience ends."""
        backoff = Backoff(self.timeout_ms if patience_ms is None else patience_ms)
        while True:
            try:
                return action()
            except (ClientError, KafkaError) as error:
                if not self.may_pass(error) or not backoff.wait():
                    raise
                self._topics.clear()

    def may_pass(self, error: ClientError | KafkaError) -> bool:
        """Whether trying again may help: after a broken connection, or where another broker may take over.

        Where there is only one broker and it cannot be reached, waiting would just hide the reason.
        """
        if isinstance(error, KafkaError):
            return error.code in RETRIABLE
        if isinstance(error, BrokerUnavailable):
            return len(self.brokers) > 1
        return isinstance(error, ConnectionLost | RequestTimeout)


class Backoff:
    """Waits that double, until the patience is used up."""

    def __init__(self, patience_ms: int) -> None:
        self._deadline = time.monotonic() + patience_ms / 1000
        self._next_ms = BACKOFF_MS_MIN

    def wait(self) -> bool:
        """False, without waiting, when there is no time left."""
        left_ms = (self._deadline - time.monotonic()) * 1000
        if left_ms <= 0:
            return False
        time.sleep(min(self._next_ms, left_ms) / 1000)
        self._next_ms = min(self._next_ms * 2, BACKOFF_MS_MAX)
        return True


def _topic_metadata(name: str, topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        found.partition_index: PartitionMetadata(
            found.partition_index,
            found.leader_id,
            found.leader_epoch,
            found.replica_nodes,
            found.isr_nodes,
            found.offline_replicas,
        )
        for found in topic.partitions
    }
    return TopicMetadata(name, topic.topic_id, topic.is_internal, dict(sorted(partitions.items())))
