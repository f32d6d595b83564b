"""aiokafka, driven from outside its event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

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
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from conformance.client import GroupConsumer

    Runner = Callable[[Coroutine[Any, Any, Any]], Any]

T = TypeVar("T")


class AioKafkaClient:
    def __init__(self, bootstrap_servers: str) -> None:
        self._common: dict[str, Any] = {"bootstrap_servers": bootstrap_servers}
        self._runner = asyncio.Runner()
        self._admin = self._run(self._start_admin())

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> Json:
        topic = NewTopic(name, partitions, replication_factor, topic_configs=dict(configs or {}))
        response = self._run(self._admin.create_topics([topic], validate_only=validate_only))
        _check_code(response.topic_errors[0][1])
        return None

    def delete_topic(self, name: str) -> Json:
        _check_code(self._run(self._admin.delete_topics([name])).topic_error_codes[0][1])
        return None

    def create_partitions(self, name: str, total: int) -> Json:
        self._run(self._admin.create_partitions({name: NewPartitions(total)}))
        return None

    def describe_topic(self, name: str) -> list[Json]:
        """Picks from all topics: asking for one by name would create it."""
        topic = next((topic for topic in self._run(self._admin.describe_topics()) if topic["topic"] == name), None)
        if topic is None:
            raise ClientError("not among the topics")
        return [
            {
                "partition": partition["partition"],
                "replicas": len(partition["replicas"]),
                "isr": len(partition["isr"]),
                "offline": len(partition["offline_replicas"]),
            }
            for partition in sorted(topic["partitions"], key=lambda partition: partition["partition"])
        ]

    def describe_configs(self, topic: str) -> dict[str, Json]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (response,) = self._run(self._admin.describe_configs([resource], include_synonyms=True))
        (found,) = response.resources
        _check_code(found[0])
        return {name: [*rest[:-1], [list(synonym) for synonym in rest[-1]]] for name, *rest in found[4]}

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> Json:
        """aiokafka has only the older call, which replaces all configs of the topic: the rest is reset."""
        configs = {name: value for name, value in changes.items() if value is not None}
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        (response,) = self._run(self._admin.alter_configs([resource]))
        _check_code(response.resources[0][0])
        return None

    def produce(self, topic: str, records: Sequence[Record], *, codec: str, acks: str) -> Json:
        return self._run(self._produce(topic, records, codec, acks))

    def consume(self, topic: str, count: int, *, fetch_size_bytes: int | None = None) -> list[Json]:
        return self._run(self._consume(topic, count, fetch_size_bytes))

    def list_offset(self, topic: str, partition: int, spec: str) -> Json:
        if not spec.isdigit() and spec not in ("earliest", "latest"):
            raise UnsupportedError(spec)
        if partition >= len(self.describe_topic(topic)):
            raise UnsupportedError("aiokafka waits for an absent partition for ever")
        return self._run(self._list_offset(TopicPartition(topic, partition), spec))

    def open_consumer(
        self,
        topic: str,
        group: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        isolation: str = "read_uncommitted",
    ) -> AioKafkaConsumer:
        if protocol != "classic":
            raise UnsupportedError(f"group protocol {protocol}")
        settings = self._common | {
            "group_id": group,
            "group_instance_id": instance,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 500,
            "enable_auto_commit": False,
            "isolation_level": isolation,
        }
        return AioKafkaConsumer(self._run, topic, settings)

    def open_producer(self, transactional_id: str | None, *, timeout_ms: int = 60_000) -> AioKafkaProducer:
        settings = self._common | {
            "enable_idempotence": True,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
        }
        return AioKafkaProducer(self._run, settings)

    def close(self) -> None:
        self._run(self._admin.close())
        self._runner.close()

    def _run(self, operation: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(asyncio.wait_for(operation, OPERATION_TIMEOUT_S))
        except KafkaError as error:
            raise ClientError(type(error).__name__) from error
        except TimeoutError as error:
            raise ClientError("no answer in time") from error

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(**self._common)
        await admin.start()
        return admin

    async def _produce(self, topic: str, records: Sequence[Record], codec: str, acks: str) -> Json:
        producer = AIOKafkaProducer(
            **self._common,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            max_request_size=REQUEST_SIZE_BYTES_MAX,
        )
        await producer.start()
        try:
            return [await _send(producer, topic, record) for record in records]
        finally:
            await producer.stop()

    async def _consume(self, topic: str, count: int, size: int | None) -> list[Json]:
        limits = {} if size is None else {"max_partition_fetch_bytes": size, "fetch_max_bytes": size}
        consumer = AIOKafkaConsumer(**self._common, **limits, group_id=None, enable_auto_commit=False)
        await consumer.start()
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            return [_observe(await consumer.getone()) for _ in range(count)]
        finally:
            await consumer.stop()

    async def _list_offset(self, partition: TopicPartition, spec: str) -> Json:
        consumer = AIOKafkaConsumer(**self._common, group_id=None)
        await consumer.start()
        try:
            if spec == "earliest":
                return int((await consumer.beginning_offsets([partition]))[partition])
            if spec == "latest":
                return int((await consumer.end_offsets([partition]))[partition])
            found = (await consumer.offsets_for_times({partition: int(spec)}))[partition]
            return None if found is None else {"offset": found.offset, "timestamp_ms": found.timestamp}
        finally:
            await consumer.stop()


class AioKafkaConsumer:
    """Starts with its first call: aiokafka's start waits until the group has given it partitions."""

    def __init__(self, run: Runner, topic: str, settings: dict[str, Any]) -> None:
        self._run, self._topic, self._settings = run, topic, settings
        self.group = settings["group_id"]
        self._consumer = run(self._start())

    def poll(self, seconds: float) -> list[Json]:
        polled = self._run(self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=1))
        return [
            {"partition": record.partition, "offset": record.offset, "value": show(record.value)}
            for records in polled.values()
            for record in records
        ]

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> Json:
        self._run(self._consumer.commit())
        return None

    def committed(self, partition: int) -> Json:
        offset: int | None = self._run(self._consumer.committed(TopicPartition(self._topic, partition)))
        return offset

    def close(self) -> None:
        self._run(self._consumer.stop())

    async def _start(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(self._topic, **self._settings)
        await consumer.start()
        return consumer


class AioKafkaProducer:
    def __init__(self, run: Runner, settings: dict[str, Any]) -> None:
        self._run, self._settings = run, settings
        self._transactional = settings["transactional_id"] is not None
        self._producer: AIOKafkaProducer | None = None
        if not self._transactional:
            self.init()

    def init(self) -> None:
        """aiokafka initializes transactions when it starts."""
        self._producer = self._run(self._start())

    def begin(self) -> None:
        self._run(self._started.begin_transaction())

    def send(self, topic: str, value: bytes) -> Json:
        sent = self._run(self._started.send_and_wait(topic, value=value, partition=0))
        return {"offset": sent.offset}

    def send_offset(self, consumer: GroupConsumer, topic: str, offset: int) -> None:
        assert isinstance(consumer, AioKafkaConsumer)
        offsets = {TopicPartition(topic, 0): offset}
        self._run(self._started.send_offsets_to_transaction(offsets, consumer.group))

    def commit(self) -> None:
        self._run(self._started.commit_transaction())

    def abort(self) -> None:
        self._run(self._started.abort_transaction())

    def close(self) -> None:
        if self._producer is not None:
            with suppress(ClientError):
                self._run(self._producer.stop())

    @property
    def _started(self) -> AIOKafkaProducer:
        assert self._producer is not None, "init comes first"
        return self._producer

    async def _start(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**self._settings)
        await producer.start()
        return producer


async def _send(producer: AIOKafkaProducer, topic: str, record: Record) -> Json:
    try:
        sent = await producer.send_and_wait(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=0,
            timestamp_ms=record.timestamp_ms,
        )
    except KafkaError as error:
        return {"error": type(error).__name__}
    return None if sent is None else {"partition": sent.partition, "offset": sent.offset}


def _check_code(code: int) -> None:
    if code != 0:
        raise ClientError(for_code(code).__name__)


def _observe(record: Any) -> Json:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp if record.timestamp_type == 0 else f"kind {record.timestamp_type}",
        "key": show(record.key),
        "value": show(record.value),
        "headers": show_headers(record.headers),
    }
