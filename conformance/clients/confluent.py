"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from conformance.client import (
    OPERATION_TIMEOUT_S,
    REQUEST_SIZE_BYTES_MAX,
    ClientError,
    Json,
    Record,
    UnsupportedError,
    show,
    show_headers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from conformance.client import GroupConsumer

LOGGER = logging.getLogger("librdkafka")
_SPECS: dict[str, Any] = {
    "earliest": OffsetSpec.earliest,
    "latest": OffsetSpec.latest,
    "max-timestamp": OffsetSpec.max_timestamp,
}


class ConfluentClient:
    def __init__(self, bootstrap_servers: str) -> None:
        self._common: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 0, "logger": LOGGER}
        self._admin = AdminClient(self._common)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> Json:
        topic = NewTopic(name, partitions, replication_factor, config=dict(configs or {}))
        _only(lambda: self._admin.create_topics([topic], validate_only=validate_only))
        return None

    def delete_topic(self, name: str) -> Json:
        _only(lambda: self._admin.delete_topics([name]))
        return None

    def create_partitions(self, name: str, total: int) -> Json:
        _only(lambda: self._admin.create_partitions([NewPartitions(name, total)]))
        return None

    def describe_topic(self, name: str) -> list[Json]:
        """Not `list_topics`: on a producer's handle that would create the topic."""
        topic = _only(lambda: self._admin.describe_topics(TopicCollection([name])))
        return [
            {"partition": partition.id, "replicas": len(partition.replicas), "isr": len(partition.isr)}
            for partition in sorted(topic.partitions, key=lambda partition: partition.id)
        ]

    def describe_configs(self, topic: str) -> dict[str, Json]:
        entries = _only(lambda: self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {
            name: {
                "value": entry.value,
                "source": int(entry.source),
                "read_only": entry.is_read_only,
                "sensitive": entry.is_sensitive,
                "synonyms": sorted(entry.synonyms),
            }
            for name, entry in entries.items()
        }

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> Json:
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _only(lambda: self._admin.incremental_alter_configs([resource]))
        return None

    def produce(self, topic: str, records: Sequence[Record], *, codec: str, acks: str) -> Json:
        producer = Producer(
            self._common
            | {
                "acks": acks,
                "compression.type": codec,
                "message.max.bytes": REQUEST_SIZE_BYTES_MAX,
                "batch.num.messages": 1,
                "linger.ms": 0,
            }
        )
        delivered: list[Json] = []

        def on_delivery(error: Any, message: Message) -> None:
            if error is not None:
                delivered.append({"error": error.name()})
            else:
                delivered.append({"partition": message.partition(), "offset": message.offset()})

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=0,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers),
                on_delivery=on_delivery,
            )
        if producer.flush(OPERATION_TIMEOUT_S) > 0:
            raise ClientError("records are still in the queue")
        return delivered

    def consume(self, topic: str, count: int, *, fetch_size_bytes: int | None = None) -> list[Json]:
        settings = self._common | {"group.id": "unused", "enable.auto.commit": False}
        if fetch_size_bytes is not None:
            # The limit of the whole answer may not be below that of a message.
            settings |= {"fetch.message.max.bytes": fetch_size_bytes}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen: list[Json] = []
        try:
            while len(seen) < count:
                message = consumer.poll(OPERATION_TIMEOUT_S)
                if message is None:
                    raise ClientError(f"only {len(seen)} of {count} records arrived")
                if (error := message.error()) is not None:
                    raise ClientError(error.name())
                seen.append(_observe(message))
        finally:
            consumer.close()
        return seen

    def list_offset(self, topic: str, partition: int, spec: str) -> Json:
        if spec.isdigit():
            wanted = OffsetSpec.for_timestamp(int(spec))
        elif spec in _SPECS:
            wanted = _SPECS[spec]()
        else:
            raise UnsupportedError(spec)
        found = _only(lambda: self._admin.list_offsets({TopicPartition(topic, partition): wanted}))
        return {"offset": found.offset, "timestamp_ms": found.timestamp, "leader_epoch": found.leader_epoch}

    def open_consumer(
        self,
        topic: str,
        group: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        isolation: str = "read_uncommitted",
    ) -> ConfluentConsumer:
        settings: dict[str, Any] = self._common | {
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
        if protocol == "classic":
            # In the other protocol the broker says how often.
            settings["heartbeat.interval.ms"] = 500
        if instance is not None:
            settings["group.instance.id"] = instance
        return ConfluentConsumer(settings, topic)

    def open_producer(self, transactional_id: str | None, *, timeout_ms: int = 60_000) -> ConfluentProducer:
        settings: dict[str, Any] = self._common | {"enable.idempotence": True, "linger.ms": 0}
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        return ConfluentProducer(settings)

    def close(self) -> None:
        """An AdminClient has no close; librdkafka ends it when it is collected."""


class ConfluentConsumer:
    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._topic = topic
        self.consumer = Consumer(settings)
        self.consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[Json]:
        with _errors():
            message = self.consumer.poll(seconds)
        if message is None:
            return []
        if (error := message.error()) is not None:
            raise ClientError(error.name())
        return [{"partition": message.partition(), "offset": message.offset(), "value": show(message.value())}]

    def assigned(self) -> int:
        return len(self.consumer.assignment())

    def commit(self) -> Json:
        with _errors():
            committed = self.consumer.commit(asynchronous=False) or ()
        return [list(place) for place in sorted((part.partition, part.offset) for part in committed)]

    def committed(self, partition: int) -> Json:
        with _errors():
            (found,) = self.consumer.committed([TopicPartition(self._topic, partition)], OPERATION_TIMEOUT_S)
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self.consumer.close()


class ConfluentProducer:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = Producer(settings)

    def init(self) -> None:
        with _errors():
            self._producer.init_transactions(OPERATION_TIMEOUT_S)

    def begin(self) -> None:
        with _errors():
            self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> Json:
        sent: list[Any] = []
        with _errors():
            self._producer.produce(topic, value, partition=0, on_delivery=lambda *seen: sent.append(seen))
            self._producer.flush(OPERATION_TIMEOUT_S)
        if not sent:
            raise ClientError("no answer in time")
        error, message = sent[0]
        if error is not None:
            raise ClientError(error.name())
        return {"offset": message.offset()}

    def send_offset(self, consumer: GroupConsumer, topic: str, offset: int) -> None:
        assert isinstance(consumer, ConfluentConsumer)
        with _errors():
            self._producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, offset)], consumer.consumer.consumer_group_metadata(), OPERATION_TIMEOUT_S
            )

    def commit(self) -> None:
        with _errors():
            self._producer.commit_transaction(OPERATION_TIMEOUT_S)

    def abort(self) -> None:
        with _errors():
            self._producer.abort_transaction(OPERATION_TIMEOUT_S)

    def close(self) -> None:
        """librdkafka ends a producer when it is collected."""


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise ClientError(error.args[0].name()) from error


def _only(call: Callable[[], Mapping[Any, Future[Any]]]) -> Any:
    try:
        (future,) = call().values()
        return future.result(OPERATION_TIMEOUT_S)
    except KafkaException as error:
        raise ClientError(error.args[0].name()) from error
    except ValueError as error:
        raise UnsupportedError("librdkafka itself refuses the argument") from error


def _observe(message: Message) -> Json:
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or []
    return {
        "offset": message.offset(),
        "leader_epoch": message.leader_epoch(),
        "timestamp": timestamp_ms if kind == TIMESTAMP_CREATE_TIME else f"kind {kind}",
        "key": show(message.key()),
        "value": show(message.value()),
        "headers": show_headers(headers),
    }
