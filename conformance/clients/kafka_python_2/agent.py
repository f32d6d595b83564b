"""kafka-python 2.x behind lines of JSON; the operations are those of ../java/Agent.java."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code
from kafka.structs import OffsetAndMetadata

TIMEOUT_S = 30
POLL_MS = 500


class Unsupported(Exception):
    """kafka-python 2.x has no such call."""


def to_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def to_text(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode("latin-1")


def check(code: int) -> None:
    if code:
        raise for_code(code)


class Agent:
    def __init__(self, bootstrap_servers: str) -> None:
        self.common: dict[str, Any] = {"bootstrap_servers": bootstrap_servers}
        self.admin = KafkaAdminClient(**self.common)
        self.handles: dict[int, Any] = {}
        self.opened = 0

    def keep(self, handle: Any) -> int:
        self.opened += 1
        self.handles[self.opened] = handle
        return self.opened

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: dict[str, str], validate_only: bool
    ) -> None:
        topic = NewTopic(name, partitions, replication_factor, topic_configs=configs)
        self.admin.create_topics([topic], validate_only=validate_only)

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])

    def create_partitions(self, name: str, total: int) -> None:
        self.admin.create_partitions({name: NewPartitions(total)})

    def describe_topic(self, name: str) -> Any:
        # From all topics: asking for one by its name would create it.
        topic = next((topic for topic in self.admin.describe_topics() if name in topic.values()), None)
        if topic is None:
            raise UnknownTopicOrPartitionError
        partitions = sorted(topic["partitions"], key=lambda item: item.get("partition", item.get("partition_index")))
        return [
            {
                "partition": item.get("partition", item.get("partition_index")),
                "replicas": len(item.get("replicas", item.get("replica_nodes"))),
                "isr": len(item.get("isr", item.get("isr_nodes"))),
            }
            for item in partitions
        ]

    def describe_configs(self, topic: str) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (response,) = self.admin.describe_configs([resource], include_synonyms=True)
        ((code, _, _, _, entries),) = response.resources
        check(code)
        return {entry[0]: [str(part) for part in entry[1:]] for entry in entries}

    def alter_configs(self, topic: str, changes: dict[str, str | None]) -> None:
        # The request replaces all configs of a topic, so that one is reset by leaving it out.
        changes = {name: value for name, value in changes.items() if value is not None}
        response = self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changes)])
        ((code, *_),) = response.resources
        check(code)

    def produce(self, topic: str, records: list[dict[str, Any]], codec: str, acks: str, size_max: int) -> Any:
        producer = KafkaProducer(
            **self.common,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=None if codec == "none" else codec,
            max_request_size=size_max,
            batch_size=0,
        )
        try:
            return [self.send_record(producer, topic, record) for record in records]
        finally:
            producer.close()

    def send_record(self, producer: Any, topic: str, record: dict[str, Any]) -> Any:
        headers = [(name, to_bytes(value)) for name, value in record["headers"]]
        if any(value is None for _, value in headers):
            raise Unsupported("a header without value")
        try:
            sent = producer.send(
                topic,
                value=to_bytes(record["value"]),
                key=to_bytes(record["key"]),
                headers=headers,
                partition=0,
                timestamp_ms=record["timestamp_ms"],
            ).get(TIMEOUT_S)
        except KafkaError as error:
            return {"error": type(error).__name__}
        return {"partition": sent.partition, "offset": sent.offset}

    def consume(self, topic: str, count: int, fetch_size: int | None = None) -> Any:
        limits = {} if fetch_size is None else {"max_partition_fetch_bytes": fetch_size, "fetch_max_bytes": fetch_size}
        consumer = KafkaConsumer(**self.common, group_id=None, enable_auto_commit=False, **limits)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        seen: list[Any] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            # Short polls: a poll that begins while the broker has throttled the client sleeps to its end.
            while len(seen) < count and time.monotonic() < deadline:
                polled = consumer.poll(POLL_MS, max_records=count - len(seen))
                seen += [self.shown(record) for record in polled.get(partition, ())]
        finally:
            consumer.close()
        return seen

    @staticmethod
    def shown(record: Any) -> Any:
        return {
            "offset": record.offset,
            "leader_epoch": record.leader_epoch,
            "timestamp": f"{record.timestamp_type} {record.timestamp}",
            "key": to_text(record.key),
            "value": to_text(record.value),
            "headers": [[name, to_text(value)] for name, value in record.headers],
        }

    def list_offset(self, topic: str, partition: int, spec: str) -> Any:
        at = TopicPartition(topic, partition)
        consumer = KafkaConsumer(**self.common, group_id=None)
        try:
            if partition not in consumer.partitions_for_topic(topic):
                raise Unsupported("it asks for an absent partition again and again, for minutes")
            if spec == "earliest":
                return consumer.beginning_offsets([at])[at]
            if spec == "latest":
                return consumer.end_offsets([at])[at]
            found = consumer.offsets_for_times({at: int(spec)})[at]
            return None if found is None else list(found)
        finally:
            consumer.close()

    def open_consumer(self, topic: str, group: str, protocol: str, instance: str | None, isolation: str) -> int:
        settings = {} if instance is None else {"group_instance_id": instance}
        consumer = KafkaConsumer(
            topic,
            **self.common,
            **settings,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=isolation,
            heartbeat_interval_ms=500,
        )
        return self.keep(consumer)

    def poll(self, handle: int, seconds: float) -> Any:
        polled = self.handles[handle].poll(int(seconds * 1000), max_records=1)
        return [
            {"partition": record.partition, "offset": record.offset, "value": to_text(record.value)}
            for records in polled.values()
            for record in records
        ]

    def assigned(self, handle: int) -> int:
        return len(self.handles[handle].assignment())

    def commit_offsets(self, handle: int) -> None:
        self.handles[handle].commit()

    def committed(self, handle: int, topic: str, partition: int) -> Any:
        return self.handles[handle].committed(TopicPartition(topic, partition))

    def open_producer(self, transactional_id: str | None, timeout_ms: int) -> int:
        return self.keep(
            KafkaProducer(
                **self.common,
                enable_idempotence=True,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
        )

    def init(self, handle: int) -> None:
        self.handles[handle].init_transactions()

    def begin(self, handle: int) -> None:
        self.handles[handle].begin_transaction()

    def send(self, handle: int, topic: str, value: str | None) -> Any:
        sent = self.handles[handle].send(topic, value=to_bytes(value), partition=0).get(TIMEOUT_S)
        return {"offset": sent.offset}

    def send_offset(self, handle: int, consumer: int, topic: str, offset: int) -> None:
        group = self.handles[consumer].config["group_id"]
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self.handles[handle].send_offsets_to_transaction(offsets, group)

    def commit(self, handle: int) -> None:
        self.handles[handle].commit_transaction()

    def abort(self, handle: int) -> None:
        self.handles[handle].abort_transaction()

    def close(self, handle: int) -> None:
        kept = self.handles.pop(handle)
        if isinstance(kept, KafkaProducer):
            kept.close(timeout=2)
        else:
            kept.close()


def answer(agent: Agent, request: dict[str, Any]) -> Any:
    operation = request.pop("op")
    try:
        return {"ok": getattr(agent, operation)(**request)}
    except Unsupported as error:
        return {"unsupported": str(error)}
    except (KafkaError, ValueError, AssertionError) as error:
        return {"error": type(error).__name__}


def main() -> None:
    out, sys.stdout = sys.stdout, sys.stderr
    agent = Agent(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(answer(agent, json.loads(line))), file=out, flush=True)


main()
