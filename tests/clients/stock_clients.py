"""The Python clients as their users have them, behind three calls: create a topic, produce, consume."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Protocol

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
from payloads import REQUEST_SIZE_BYTES_MAX, TIMEOUT_S, Received, Sent, wait_until

with warnings.catch_warnings():
    # It loads its schemas by functions that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin


class StockClient(Protocol):
    sends_null_headers: bool
    """Whether it lets a header have no value."""

    def create_topic(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None: ...

    def produce(
        self, bootstrap: str, topic: str, records: tuple[Sent, ...], *, codec: str, acks: str
    ) -> list[int] | None:
        """To partition 0. Returns the offsets that the broker told, which it does not with acks=0."""
        ...

    def produce_idempotently(self, bootstrap: str, topic: str) -> int:
        """One record to partition 0, by a producer that needs a producer id. Returns its offset."""
        ...

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """So many records of partition 0, from its beginning."""
        ...


def end_offset(bootstrap: str, topic: str) -> int:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    partition = confluent_kafka.TopicPartition(topic, 0)
    (found,) = admin.list_offsets({partition: confluent_kafka.admin.OffsetSpec.latest()}).values()
    return int(found.result(TIMEOUT_S).offset)


def wait_for_end(bootstrap: str, topic: str, offset: int) -> None:
    """With acks=0 a producer that is closed forgets what its socket has not taken yet."""
    wait_until(lambda: end_offset(bootstrap, topic) == offset, f"{topic} ends at {offset}")


class Confluent:
    sends_null_headers = True

    def create_topic(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        new = confluent_kafka.admin.NewTopic(topic, 1, 1, config=dict(configs))
        admin.create_topics([new])[topic].result(TIMEOUT_S)

    def produce(
        self, bootstrap: str, topic: str, records: tuple[Sent, ...], *, codec: str, acks: str
    ) -> list[int] | None:
        offsets: list[int] = []
        errors: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            offsets.append(message.offset())
            if error is not None:
                errors.append(error)

        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "acks": acks,
                "compression.codec": codec,
                "message.max.bytes": REQUEST_SIZE_BYTES_MAX,
                "linger.ms": 20,
            }
        )
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=0,
                on_delivery=delivered,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert errors == []
        wait_for_end(bootstrap, topic, len(records))
        return None if acks == "0" else offsets

    def produce_idempotently(self, bootstrap: str, topic: str) -> int:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True}
        )
        outcomes: list[Any] = []
        producer.produce(topic, b"", partition=0, on_delivery=lambda error, sent: outcomes.append(error or sent))
        assert producer.flush(TIMEOUT_S) == 0
        return int(outcomes[0].offset())

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "group.id": "unused",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": REQUEST_SIZE_BYTES_MAX,
                "check.crcs": True,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            return [_of_confluent(consumer.poll(TIMEOUT_S)) for _ in range(count)]
        finally:
            consumer.close()


def _of_confluent(message: Any) -> Received:
    assert message is not None, "no record in time"
    assert message.error() is None, message.error()
    kind, timestamp_ms = message.timestamp()
    assert kind == confluent_kafka.TIMESTAMP_CREATE_TIME
    sent = Sent(message.key(), message.value(), tuple(message.headers() or ()), timestamp_ms)
    return Received(message.offset(), sent)


class KafkaPython:
    sends_null_headers = False

    def create_topic(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        with closing(kafka.admin.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.create_topics([kafka.admin.NewTopic(topic, 1, 1, topic_configs=dict(configs))])

    def produce(
        self, bootstrap: str, topic: str, records: tuple[Sent, ...], *, codec: str, acks: str
    ) -> list[int] | None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=None if codec == "none" else codec,
            max_request_size=REQUEST_SIZE_BYTES_MAX,
            linger_ms=20,
        )
        with closing(producer):
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            offsets = [future.get(TIMEOUT_S).offset for future in futures]
            wait_for_end(bootstrap, topic, len(records))
        return None if acks == "0" else offsets

    def produce_idempotently(self, bootstrap: str, topic: str) -> int:
        with closing(kafka.KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)) as producer:
            return int(producer.send(topic, b"", partition=0).get(TIMEOUT_S).offset)

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            max_partition_fetch_bytes=REQUEST_SIZE_BYTES_MAX,
            check_crcs=True,
        )
        seen: list[Received] = []
        with closing(consumer):
            partition = kafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            while len(seen) < count:
                polled = consumer.poll(TIMEOUT_S * 1000)
                assert polled, "no record in time"
                seen.extend(map(_of_tuple, polled[partition]))
        return seen


class AioKafka:
    sends_null_headers = True

    def create_topic(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        async def create() -> None:
            admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                new = aiokafka.admin.NewTopic(topic, 1, 1, topic_configs=dict(configs))
                response = await admin.create_topics([new])
                assert response.topic_errors[0][1] == 0, response
            finally:
                await admin.close()

        asyncio.run(create())

    def produce(
        self, bootstrap: str, topic: str, records: tuple[Sent, ...], *, codec: str, acks: str
    ) -> list[int] | None:
        async def produce() -> list[int] | None:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks=acks if acks == "all" else int(acks),
                compression_type=None if codec == "none" else codec,
                max_request_size=REQUEST_SIZE_BYTES_MAX,
                linger_ms=20,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=0,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                answers = await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_S)
                await asyncio.to_thread(wait_for_end, bootstrap, topic, len(records))
            finally:
                await producer.stop()
            return None if acks == "0" else [answer.offset for answer in answers]

        return asyncio.run(produce())

    def produce_idempotently(self, bootstrap: str, topic: str) -> int:
        async def produce() -> int:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
            await asyncio.wait_for(producer.start(), TIMEOUT_S)
            try:
                sent = await asyncio.wait_for(producer.send_and_wait(topic, b"", partition=0), TIMEOUT_S)
            finally:
                await producer.stop()
            return int(sent.offset)

        return asyncio.run(produce())

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        async def consume() -> list[Received]:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=None,
                max_partition_fetch_bytes=REQUEST_SIZE_BYTES_MAX,
                check_crcs=True,
            )
            await consumer.start()
            try:
                partition = aiokafka.TopicPartition(topic, 0)
                consumer.assign([partition])
                consumer.seek(partition, 0)
                return [_of_tuple(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)) for _ in range(count)]
            finally:
                await consumer.stop()

        return asyncio.run(consume())


def _of_tuple(record: Any) -> Received:
    assert record.timestamp_type == 0
    headers = tuple((name, value) for name, value in record.headers)
    return Received(record.offset, Sent(record.key, record.value, headers, record.timestamp))


CLIENTS: dict[str, StockClient] = {
    "confluent-kafka": Confluent(),
    "kafka-python": KafkaPython(),
    "aiokafka": AioKafka(),
}
