"""kafka-python."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    OffsetTimestamp,
)
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from conformance.client import (
    OPERATION_TIMEOUT_S,
    REQUEST_SIZE_BYTES_MAX,
    ClientError,
    Json,
    Record,
    UnsupportedError,
    show,
    show_headers,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from conformance.client import GroupConsumer

_SPECS = {
    "earliest": OffsetSpec.EARLIEST,
    "latest": OffsetSpec.LATEST,
    "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
    "earliest-local": OffsetSpec.EARLIEST_LOCAL,
    "latest-tiered": OffsetSpec.LATEST_TIERED,
}


class KafkaPythonClient:
    def __init__(self, bootstrap_servers: str) -> None:
        self._common: dict[str, Any] = {"bootstrap_servers": bootstrap_servers}
        self._admin = KafkaAdminClient(**self._common)

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
        with _errors():
            (created,) = self._admin.create_topics([topic], validate_only=validate_only)["topics"]
        return {key: created[key] for key in ("num_partitions", "replication_factor", "configs")}

    def delete_topic(self, name: str) -> Json:
        with _errors():
            self._admin.delete_topics([name])
        return None

    def create_partitions(self, name: str, total: int) -> Json:
        with _errors():
            self._admin.create_partitions({name: NewPartitions(total)})
        return None

    def describe_topic(self, name: str) -> list[Json]:
        with _errors():
            (topic,) = self._admin.describe_topics([name])
        if topic["error_code"] != 0:
            raise ClientError(f"error code {topic['error_code']}")
        return [
            {
                "partition": partition["partition_index"],
                "leader_epoch": partition["leader_epoch"],
                "replicas": len(partition["replica_nodes"]),
                "isr": len(partition["isr_nodes"]),
                "offline": len(partition["offline_replicas"]),
            }
            for partition in sorted(topic["partitions"], key=lambda partition: partition["partition_index"])
        ]

    def describe_configs(self, topic: str) -> dict[str, Json]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        with _errors():
            found = self._admin.describe_configs([resource], include_synonyms=True, config_filter="all")
        configs: dict[str, Json] = found["topic"][topic]
        return configs

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> Json:
        to_set = {name: value for name, value in changes.items() if value is not None}
        to_reset = [name for name, value in changes.items() if value is None]
        with _errors():
            if to_set:
                _check_altered(
                    self._admin.alter_configs(
                        [ConfigResource(ConfigResourceType.TOPIC, topic, to_set)], raise_on_unknown=False
                    )
                )
            if to_reset:
                _check_altered(
                    self._admin.reset_configs(
                        [ConfigResource(ConfigResourceType.TOPIC, topic, to_reset)], raise_on_unknown=False
                    )
                )
        return None

    def produce(self, topic: str, records: Sequence[Record], *, codec: str, acks: str) -> Json:
        if any(value is None for record in records for _, value in record.headers):
            raise UnsupportedError("a header without value")
        with _errors():
            producer = KafkaProducer(
                **self._common,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=acks == "all",
                compression_type=None if codec == "none" else codec,
                max_request_size=REQUEST_SIZE_BYTES_MAX,
                batch_size=0,
            )
        with closing(producer):
            sent: Json = [self._send(producer, topic, record) for record in records]
            if acks == "0":
                # A closed producer forgets what its socket has not taken yet, and nothing is acked.
                wait_until(lambda: self._end_offset(topic) == len(records), f"{topic} has all its records")
            return sent

    def _end_offset(self, topic: str) -> int:
        (found,) = self._admin.list_partition_offsets({TopicPartition(topic, 0): OffsetSpec.LATEST}).values()
        return int(found.offset)

    def _send(self, producer: KafkaProducer, topic: str, record: Record) -> Json:
        try:
            sent = producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=0,
                timestamp_ms=record.timestamp_ms,
            ).get(OPERATION_TIMEOUT_S)
        except KafkaError as error:
            return {"error": type(error).__name__}
        return {"partition": sent.partition, "offset": sent.offset}

    def consume(self, topic: str, count: int, *, fetch_size_bytes: int | None = None) -> list[Json]:
        seen: list[Json] = []
        limits: dict[str, Any] = {}
        if fetch_size_bytes is not None:
            limits = {"max_partition_fetch_bytes": fetch_size_bytes, "fetch_max_bytes": fetch_size_bytes}
        with (
            closing(KafkaConsumer(**self._common, **limits, group_id=None, enable_auto_commit=False)) as consumer,
            _errors(),
        ):
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            while len(seen) < count:
                polled = consumer.poll(OPERATION_TIMEOUT_S * 1000, max_records=count - len(seen))
                if not polled:
                    raise ClientError(f"only {len(seen)} of {count} records arrived")
                seen.extend(_observe(record) for record in polled[partition])
        return seen

    def list_offset(self, topic: str, partition: int, spec: str) -> Json:
        if not spec.isdigit() and spec not in _SPECS:
            raise UnsupportedError(spec)
        wanted = OffsetTimestamp(int(spec)) if spec.isdigit() else _SPECS[spec]
        with _errors():
            (found,) = self._admin.list_partition_offsets({TopicPartition(topic, partition): wanted}).values()
        return {"offset": found.offset, "timestamp_ms": found.timestamp, "leader_epoch": found.leader_epoch}

    def open_consumer(
        self,
        topic: str,
        group: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        isolation: str = "read_uncommitted",
    ) -> KafkaPythonConsumer:
        if protocol != "classic":
            raise UnsupportedError(f"group protocol {protocol}")
        return KafkaPythonConsumer(
            topic,
            self._common
            | {
                "group_id": group,
                "group_instance_id": instance,
                "auto_offset_reset": "earliest",
                "heartbeat_interval_ms": 500,
                "enable_auto_commit": False,
                "isolation_level": isolation,
            },
        )

    def open_producer(self, transactional_id: str | None, *, timeout_ms: int = 60_000) -> KafkaPythonProducer:
        with _errors():
            return KafkaPythonProducer(
                self._common
                | {
                    "enable_idempotence": True,
                    "transactional_id": transactional_id,
                    "transaction_timeout_ms": timeout_ms,
                }
            )

    def close(self) -> None:
        self._admin.close()


class KafkaPythonConsumer:
    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        self._topic = topic
        with _errors():
            self.consumer = KafkaConsumer(topic, **settings)
            # One that joins before it knows them joins again when it does, and may forget that join (docs/clients.md).
            self.consumer.partitions_for_topic(topic)

    def poll(self, seconds: float) -> list[Json]:
        with _errors():
            polled = self.consumer.poll(seconds * 1000, max_records=1)
        return [
            {"partition": record.partition, "offset": record.offset, "value": show(record.value)}
            for records in polled.values()
            for record in records
        ]

    def assigned(self) -> int:
        return len(self.consumer.assignment())

    def commit(self) -> Json:
        with _errors():
            self.consumer.commit()
        return None

    def committed(self, partition: int) -> Json:
        with _errors():
            offset: int | None = self.consumer.committed(TopicPartition(self._topic, partition))
        return offset

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonProducer:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = KafkaProducer(**settings)

    def init(self) -> None:
        with _errors():
            self._producer.init_transactions()

    def begin(self) -> None:
        with _errors():
            self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> Json:
        with _errors():
            sent = self._producer.send(topic, value=value, partition=0).get(OPERATION_TIMEOUT_S)
        return {"offset": sent.offset}

    def send_offset(self, consumer: GroupConsumer, topic: str, offset: int) -> None:
        assert isinstance(consumer, KafkaPythonConsumer)
        with _errors():
            self._producer.send_offsets_to_transaction(
                {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}, consumer.consumer.group_metadata()
            )

    def commit(self) -> None:
        with _errors():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with _errors():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=2)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise ClientError(type(error).__name__) from error


def _check_altered(results: Any) -> None:
    """kafka-python answers with one sentence for each resource; only the code in front is the broker's."""
    (result,) = results["topic"].values()
    if result != "OK":
        raise ClientError(result.partition(":")[0])


def _observe(record: Any) -> Json:
    return {
        "offset": record.offset,
        "leader_epoch": record.leader_epoch,
        "timestamp": record.timestamp if record.timestamp_type == 0 else f"kind {record.timestamp_type}",
        "key": show(record.key),
        "value": show(record.value),
        "headers": show_headers(record.headers),
    }
