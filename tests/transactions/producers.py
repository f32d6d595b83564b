"""Transactional producers of the stock clients, all with the same face.

What a client raises is told apart in the way that matters to a program: `Fenced` ends the producer, `Abortable`
ends the transaction.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from java_driver import JavaDriver, JavaFailure

from oncelog.testing import Broker

TIMEOUT_S = 30
TIMEOUT_MS = 60_000


class Fenced(Exception):
    """Another producer has the transactional id, or the broker thinks so: nothing can be done any more."""


class Abortable(Exception):
    """The transaction can only be aborted; the producer goes on."""


class TransactionalProducer(Protocol):
    """Its transactional id is initialized when it is made."""

    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, value: str) -> None: ...

    def flush(self) -> None:
        """Until the broker has all that was sent."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...

    def send_offset(self, topic: str, partition: int, offset: int, group_id: str) -> None:
        """As nobody's member."""

    def close(self) -> None: ...


class ConfluentProducer:
    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        from confluent_kafka import Producer

        self._client = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 50,
                # By starting over from the bootstrap servers librdkafka loses requests to coordinators, and hangs, as
                # with Apache Kafka (librdkafka #5511, docs/clients.md).
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )
        self._call(self._client.init_transactions, TIMEOUT_S)

    def begin(self) -> None:
        self._call(self._client.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._call(self._client.produce, topic, value.encode(), None, partition)

    def flush(self) -> None:
        assert self._call(self._client.flush, TIMEOUT_S) == 0

    def commit(self) -> None:
        self._call(self._client.commit_transaction, TIMEOUT_S)

    def abort(self) -> None:
        self._call(self._client.abort_transaction, TIMEOUT_S)

    def send_offset(
        self, topic: str, partition: int, offset: int, group_id: str, metadata: object | None = None
    ) -> None:
        from confluent_kafka import Consumer, TopicPartition

        if metadata is None:
            consumer = Consumer({"bootstrap.servers": "localhost:1", "group.id": group_id, "log_level": 0})
            metadata = consumer.consumer_group_metadata()
        offsets = [TopicPartition(topic, partition, offset)]
        self._call(self._client.send_offsets_to_transaction, offsets, metadata, TIMEOUT_S)

    def close(self) -> None:
        self._client.purge()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        from confluent_kafka import KafkaError, KafkaException

        try:
            return function(*arguments)
        except (KafkaException, KafkaError) as error:
            cause = error.args[0]
            if cause.txn_requires_abort():
                raise Abortable(str(cause)) from error
            if cause.fatal() or cause.code() in (KafkaError._FENCED, KafkaError._FATAL):
                raise Fenced(str(cause)) from error
            raise


class KafkaPythonProducer:
    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        from kafka import KafkaProducer

        self._client = KafkaProducer(
            bootstrap_servers=address,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=TIMEOUT_S * 1000,
        )
        self._sent: list[Any] = []
        self._call(self._client.init_transactions)

    def begin(self) -> None:
        self._call(self._client.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._sent.append(self._call(self._client.send, topic, value.encode(), partition=partition))

    def flush(self) -> None:
        self._call(self._client.flush, TIMEOUT_S)

    def commit(self) -> None:
        """kafka-python 3.0 says nothing when it commits a transaction that the broker has aborted for its timeout.

        A record that came too late makes it take a new epoch, and then it has no transaction left to end. Only what
        became of the record tells; against Apache Kafka it is the same.
        """
        sent, self._sent = self._sent, []
        self._call(self._client.commit_transaction)
        for each in sent:
            self._call(each.get, TIMEOUT_S)

    def abort(self) -> None:
        self._sent = []
        self._call(self._client.abort_transaction)

    def send_offset(self, topic: str, partition: int, offset: int, group_id: str) -> None:
        from kafka.structs import OffsetAndMetadata, TopicPartition

        offsets = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._call(self._client.send_offsets_to_transaction, offsets, group_id)

    def close(self) -> None:
        self._client.close(timeout=TIMEOUT_S)

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        from kafka import errors

        try:
            return function(*arguments, **options)
        except (errors.ProducerFencedError, errors.InvalidProducerEpochError) as error:
            raise Fenced(str(error)) from error
        except errors.KafkaError as error:
            raise Abortable(str(error)) from error


class AiokafkaProducer:
    """On an event loop of its own, in a thread."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        from aiokafka import AIOKafkaProducer

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._sent: list[Any] = []

        async def start() -> AIOKafkaProducer:
            client = AIOKafkaProducer(
                bootstrap_servers=address, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await client.start()
            return client

        self._client = self._call(start())

    def begin(self) -> None:
        self._call(self._client.begin_transaction())

    def send(self, topic: str, partition: int, value: str) -> None:
        self._sent.append(self._call(self._client.send(topic, value.encode(), partition=partition)))

    def flush(self) -> None:
        self._call(self._client.flush())

    def commit(self) -> None:
        self._call(self._client.commit_transaction())

    def abort(self) -> None:
        self._call(self._client.abort_transaction())

    def send_offset(self, topic: str, partition: int, offset: int, group_id: str) -> None:
        from aiokafka import TopicPartition

        offsets = {TopicPartition(topic, partition): offset}
        self._call(self._client.send_offsets_to_transaction(offsets, group_id))

    def close(self) -> None:
        async def stop() -> None:
            await asyncio.gather(*self._sent, return_exceptions=True)
            await self._client.stop()

        try:
            self._call(stop())
        except Fenced:
            pass
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        from aiokafka import errors

        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)
        except (errors.ProducerFenced, errors.InvalidProducerEpoch) as error:
            raise Fenced(str(error)) from error


class JavaProducer:
    def __init__(self, driver: JavaDriver, name: str, address: str, transactional_id: str, timeout_ms: int) -> None:
        self._driver = driver
        self._name = name
        self._tell("new", address, transactional_id, timeout_ms)

    def begin(self) -> None:
        self._tell("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        self._tell("send", topic, partition, value)

    def flush(self) -> None:
        self._tell("flush")

    def commit(self) -> None:
        self._tell("commit")

    def abort(self) -> None:
        self._tell("abort")

    def send_offset(self, topic: str, partition: int, offset: int, group_id: str) -> None:
        self._tell("offsets", topic, partition, offset, group_id)

    def close(self) -> None:
        self._tell("close")

    def _tell(self, verb: str, *words: object) -> None:
        try:
            self._driver.tell(verb, self._name, *words)
        except JavaFailure as failure:
            if failure.name in ("ProducerFencedException", "InvalidProducerEpochException"):
                raise Fenced(str(failure)) from failure
            if failure.name in ("TransactionAbortableException", "KafkaException"):
                raise Abortable(str(failure)) from failure
            raise


PRODUCERS = ("confluent", "kafka-python", "aiokafka", "java")


class Producers:
    """Makes producers of one kind."""

    def __init__(self, kind: str, broker: Broker, driver: JavaDriver | None) -> None:
        self.kind = kind
        self._broker = broker
        self._driver = driver
        self._made: list[TransactionalProducer] = []

    def make(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> TransactionalProducer:
        address = self._broker.bootstrap_servers
        made: TransactionalProducer
        if self.kind == "java":
            assert self._driver is not None
            name = f"{transactional_id}/{len(self._made)}"
            made = JavaProducer(self._driver, name, address, transactional_id, timeout_ms)
        else:
            kinds = {"confluent": ConfluentProducer, "kafka-python": KafkaPythonProducer, "aiokafka": AiokafkaProducer}
            made = kinds[self.kind](address, transactional_id, timeout_ms)
        self._made.append(made)
        return made

    def close(self) -> None:
        for producer in self._made:
            producer.close()
