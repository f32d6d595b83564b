"""Members of a group made of stock clients, all with the same face: each polls in a thread and notes what happens."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Partition = tuple[str, int]

WAIT_S_MAX = 90.0
ALL = {0, 1, 2, 3}
"""The partitions of a topic, unless a test asks for another number of them."""

CONFLUENT = {
    "log_level": 0,
    "reconnect.backoff.max.ms": 200,
    # librdkafka 2.16 can lose a request for good while it begins anew from the bootstrap servers (docs/clients.md).
    "metadata.recovery.strategy": "none",
}


def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds, or fail."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


class Commits:
    """librdkafka may send a commit that waited for its coordinator after newer ones (docs/clients.md)."""

    def __init__(self) -> None:
        self._newest: dict[Partition, int] = {}
        """The highest offset that the broker has taken."""

    def note(self, error: Any, places: Any) -> dict[Partition, int]:
        """What a commit came to; the offsets that it has put back, which should be committed once more."""
        put_back: dict[Partition, int] = {}
        for place in places:
            if error or place.error:
                continue
            key = (place.topic, place.partition)
            newest = self._newest[key] = max(place.offset, self._newest.get(key, 0))
            if place.offset < newest:
                put_back[key] = newest
        return put_back


class Member:
    """Polls from its making to `stop`. Subclasses run in `_run` and keep `assigned` up to date."""

    running: set[Member] = set()
    """All that were not stopped yet."""

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str, **options: Any) -> None:
        self.assigned: set[Partition] = set()
        self.assignment_count = 0
        self.received: list[tuple[int, int]] = []
        """Partition and offset."""
        self.failure: BaseException | None = None
        self._commits = Commits()
        self._address = bootstrap_servers
        self._group_id = group_id
        self._topic = topic
        self._options = options
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        Member.running.add(self)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, and wait until that is done."""
        self._end()
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    def abandon(self) -> None:
        """The same for a member of a test that failed, whether or not that goes well."""
        self._end()

    def _end(self) -> None:
        self._stopping.set()
        self._thread.join(WAIT_S_MAX)
        Member.running.discard(self)

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error
            traceback.print_exc()

    def _run(self) -> None:
        raise NotImplementedError

    def _was_assigned(self, partitions: set[Partition]) -> None:
        self.assigned = partitions
        self.assignment_count += 1


class ConfluentMember(Member):
    def _run(self) -> None:
        from confluent_kafka import Consumer, KafkaError, KafkaException

        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": self._group_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
                "on_commit": lambda error, places: self._mend_commits(consumer, error, places),
                **CONFLUENT,
                **{name.replace("_", "."): value for name, value in self._options.items()},
            }
        )
        cooperative = self._options.get("partition_assignment_strategy") == "cooperative-sticky"

        def places(partitions: Any) -> set[Partition]:
            return {(partition.topic, partition.partition) for partition in partitions}

        def on_assign(_: Any, partitions: Any) -> None:
            self._was_assigned(self.assigned | places(partitions) if cooperative else places(partitions))

        def on_revoke(_: Any, partitions: Any) -> None:
            self.assigned = self.assigned - places(partitions)

        consumer.subscribe([self._topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_revoke)
        try:
            while not self._stopping.is_set():
                message = consumer.poll(0.05)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self.received.append((message.partition(), message.offset()))
                    consumer.commit(message, asynchronous=True)
                elif error.code() == KafkaError._FATAL:
                    raise KafkaException(error)
        finally:
            consumer.close()

    def _mend_commits(self, consumer: Any, error: Any, places: Any) -> None:
        from confluent_kafka import TopicPartition

        for key, newest in self._commits.note(error, places).items():
            if key in self.assigned and not self._stopping.is_set():
                consumer.commit(offsets=[TopicPartition(*key, newest)], asynchronous=True)


class KafkaPythonMember(Member):
    def _run(self) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer

        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.assigned = set()

            def on_partitions_assigned(self, assigned: Any) -> None:
                member._was_assigned({(place.topic, place.partition) for place in consumer.assignment()})

        consumer = KafkaConsumer(
            bootstrap_servers=self._address,
            group_id=self._group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            **self._options,
        )
        consumer.subscribe([self._topic], listener=Listener())
        try:
            # One that joins before it knows the topic's partitions joins again when it does, and kafka-python 3.0
            # forgets that second join if a poll ends in the midst of it, as on a busy machine (docs/clients.md).
            until(lambda: self._stopping.is_set() or bool(consumer.partitions_for_topic(self._topic)))
            while not self._stopping.is_set():
                for messages in consumer.poll(timeout_ms=50).values():
                    self.received += [(message.partition, message.offset) for message in messages]
                    consumer.commit()
        finally:
            consumer.close()


class AioKafkaMember(Member):
    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.assigned = set()

            def on_partitions_assigned(self, assigned: Any) -> None:
                member._was_assigned({(place.topic, place.partition) for place in assigned})

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._address,
            group_id=self._group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            **self._options,
        )
        consumer.subscribe([self._topic], listener=Listener())
        await consumer.start()
        try:
            while not self._stopping.is_set():
                batches = await consumer.getmany(timeout_ms=50)
                for messages in batches.values():
                    self.received += [(message.partition, message.offset) for message in messages]
                if batches:
                    await consumer.commit()
        finally:
            await consumer.stop()


MEMBERS = [ConfluentMember, KafkaPythonMember, AioKafkaMember]


def shared(*members: Member) -> bool:
    """Each partition belongs to one member, and each member has its share."""
    owned = sorted(partition for member in members for _, partition in member.assigned)
    sizes = [len(member.assigned) for member in members]
    return owned == sorted(ALL) and max(sizes) - min(sizes) <= 1


_MEMBER = """
import importlib, sys
from members import until
module, name, *arguments, options = sys.argv[1:]
member = getattr(importlib.import_module(module), name)(*arguments, **eval(options))
until(lambda: bool(member.assigned))
print("assigned", flush=True)
member._thread.join()
"""


@contextmanager
def in_a_process(kind: type[Member], *arguments: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A member that can be killed; it has partitions."""
    command = [sys.executable, "-c", _MEMBER, kind.__module__, kind.__name__, *arguments, repr(options)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == b"assigned"
            yield process
        finally:
            process.kill()


class Admin:
    """Topics, records, and what a broker says of groups."""

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.address = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, **CONFLUENT})

    def new_topic(self, partition_count: int = 4) -> str:
        from confluent_kafka.admin import NewTopic

        name = f"t-{uuid.uuid4().hex[:8]}"
        self._admin.create_topics([NewTopic(name, partition_count, 1)])[name].result()
        return name

    def produce(self, topic: str, count: int, partition_count: int = 4) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address, "log_level": 0})
        for index in range(count):
            producer.produce(topic, str(index).encode(), partition=index % partition_count)
        assert producer.flush(WAIT_S_MAX) == 0

    def group(self, group_id: str) -> Any:
        return self._admin.describe_consumer_groups([group_id])[group_id].result()

    def groups(self) -> set[str]:
        return {group.group_id for group in self._admin.list_consumer_groups().result().valid}

    def committed(self, group_id: str) -> dict[int, int]:
        from confluent_kafka import ConsumerGroupTopicPartitions

        request = [ConsumerGroupTopicPartitions(group_id)]
        result = self._admin.list_consumer_group_offsets(request)[group_id].result()
        return {place.partition: place.offset for place in result.topic_partitions}

    def delete_group(self, group_id: str) -> None:
        self._admin.delete_consumer_groups([group_id])[group_id].result()

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result()
