"""Consumers of the stock clients, all with the same face: they read assigned keys with read_committed.

Key k is partition k % 2 of topic t{k // 2}.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tests.faults.records import Polled

TIMEOUT_S = 30


def place(key: int) -> tuple[str, int]:
    return f"t{key // 2}", key % 2


def key_of(topic: str, partition: int) -> int:
    return int(topic.removeprefix("t")) * 2 + partition


class Reader(Protocol):
    def assign(self, offsets: dict[int, int]) -> None:
        """Read these keys, each from its offset."""

    def seek(self, key: int, offset: int) -> None: ...

    def poll(self, timeout_s: float) -> Polled:
        """What there is, in the order in which the client gives it."""


class ConfluentReader:
    def __init__(self, address: str, group: str) -> None:
        from confluent_kafka import Consumer

        self._client = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )

    def assign(self, offsets: dict[int, int]) -> None:
        from confluent_kafka import TopicPartition

        self._client.assign([TopicPartition(*place(key), offset) for key, offset in offsets.items()])

    def seek(self, key: int, offset: int) -> None:
        from confluent_kafka import TopicPartition

        self._client.seek(TopicPartition(*place(key), offset))

    def poll(self, timeout_s: float) -> Polled:
        messages: list[Any] = self._client.consume(100, timeout_s)
        for message in messages:
            assert message.error() is None, message.error()
        return [
            (key_of(message.topic(), message.partition()), message.offset(), message.value()) for message in messages
        ]


class KafkaPythonReader:
    def __init__(self, address: str, group: str) -> None:
        from kafka import KafkaConsumer

        self._client = KafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=50,
        )

    def assign(self, offsets: dict[int, int]) -> None:
        from kafka import TopicPartition

        self._client.assign([TopicPartition(*place(key)) for key in offsets])
        for key, offset in offsets.items():
            self.seek(key, offset)

    def seek(self, key: int, offset: int) -> None:
        from kafka import TopicPartition

        self._client.seek(TopicPartition(*place(key)), offset)

    def poll(self, timeout_s: float) -> Polled:
        polled = self._client.poll(timeout_ms=int(timeout_s * 1000), max_records=100)
        return [
            (key_of(record.topic, record.partition), record.offset, record.value)
            for records in polled.values()
            for record in records
        ]


class AiokafkaReader:
    """On an event loop of its own, in a thread."""

    def __init__(self, address: str, group: str) -> None:
        from aiokafka import AIOKafkaConsumer

        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

        async def start() -> AIOKafkaConsumer:
            client = AIOKafkaConsumer(
                bootstrap_servers=address,
                group_id=group,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="none",
                fetch_max_wait_ms=50,
            )
            await client.start()
            return client

        self._client = self._call(start())

    def assign(self, offsets: dict[int, int]) -> None:
        from aiokafka import TopicPartition

        async def assign() -> None:
            self._client.assign([TopicPartition(*place(key)) for key in offsets])
            for key, offset in offsets.items():
                self._client.seek(TopicPartition(*place(key)), offset)

        self._call(assign())

    def seek(self, key: int, offset: int) -> None:
        from aiokafka import TopicPartition

        async def seek() -> None:
            self._client.seek(TopicPartition(*place(key)), offset)

        self._call(seek())

    def poll(self, timeout_s: float) -> Polled:
        polled = self._call(self._client.getmany(timeout_ms=int(timeout_s * 1000), max_records=100))
        return [
            (key_of(record.topic, record.partition), record.offset, record.value)
            for records in polled.values()
            for record in records
        ]

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)


READERS: dict[str, Callable[[str, str], Reader]] = {
    "confluent": ConfluentReader,
    "kafka-python": KafkaPythonReader,
    "aiokafka": AiokafkaReader,
}


def open_reader(library: str, address: str, group: str) -> Reader:
    """A program with a Java producer reads by librdkafka."""
    return READERS.get(library, ConfluentReader)(address, group)
