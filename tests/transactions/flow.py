"""A topic that is fed all the time, and a reader of another that is never interrupted, while programs are killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from subprocess import Popen, TimeoutExpired
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PATIENCE_S = 60.0
AHEAD_MAX = 500
CLIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


class Background:
    """A thread that calls `_step` from the start of a `with` block until `stop`, or the block's end."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._close()
        if kind is None:
            self.check()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """What went wrong in the thread goes wrong here."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
        except BaseException as failure:
            self._failure = failure

    def _step(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """What the thread has used."""


class Feeder(Background):
    """Writes what `make` gives for 0, 1, 2, …, by an idempotent producer, to the partitions in turn.

    It goes on until it is stopped, or has written `count_max`, and pauses when it is too far `ahead_of` its readers.
    """

    def __init__(
        self,
        address: str,
        topic: str,
        partitions: int,
        rate: int,
        make: Callable[[int], str] = str,
        *,
        count_max: int | None = None,
        ahead_of: Callable[[], int] | None = None,
    ) -> None:
        super().__init__()
        self._ahead_of = ahead_of
        self._count_max = count_max
        self._producer = Producer(
            CLIENT | {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "retry.backoff.ms": 20}
        )
        self._topic = topic
        self._interval_s = 1 / rate
        self._make = make
        self.count = 0
        self.values: list[list[str]] = [[] for _ in range(partitions)]

    def stop(self) -> None:
        """When this returns, all values are written."""
        while self._count_max is not None and self.count < self._count_max:
            self.check()
            self.go_on(self._interval_s)
        super().stop()
        assert self._producer.flush(PATIENCE_S) == 0
        self.check()

    def go_on(self, seconds: float) -> None:
        """Let it write for that long."""
        self._stopping.wait(seconds)

    def _step(self) -> None:
        is_ahead = self._ahead_of is not None and self.count - self._ahead_of() > AHEAD_MAX
        if is_ahead or self.count == self._count_max:
            self._producer.poll(self._interval_s)
            return
        value, partition = self._make(self.count), self.count % len(self.values)
        # First the promise, so that no reader can be ahead of it.
        self.values[partition].append(value)
        self._producer.produce(self._topic, value.encode(), partition=partition, on_delivery=self._delivered)
        self.count += 1
        self._producer.poll(0)
        self._stopping.wait(self._interval_s)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failure = AssertionError(f"the source was not written: {error}")


class Watcher(Background):
    """Reads a topic from its beginning with read_committed, through all restarts of the broker."""

    def __init__(self, address: str, topic: str, partitions: int, *, patience_s: float = PATIENCE_S) -> None:
        super().__init__()
        self._patience_s = patience_s
        self._consumer = Consumer(
            CLIENT
            | {
                "bootstrap.servers": address,
                "group.id": "watcher",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self.values: list[list[str]] = [[] for _ in range(partitions)]
        self.count = 0

    def wait(self, what: str, is_so: Callable[[], bool], process: Popen[Any]) -> bool:
        """Until it is so, or the process has ended; whether it is so. As long as there is progress, it waits."""
        seen, deadline = self.count, time.monotonic() + self._patience_s
        while not is_so() and process.poll() is None:
            self.check()
            if seen != self.count:
                seen, deadline = self.count, time.monotonic() + self._patience_s
            assert time.monotonic() < deadline, f"{what}: nothing came for {self._patience_s} s after {seen} records"
            with suppress(TimeoutExpired):
                process.wait(0.01)
        return is_so()

    def _step(self) -> None:
        message = self._consumer.poll(0.1)
        if message is None:
            return
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        self.values[message.partition() or 0].append(value.decode())
        self.count += 1

    def _close(self) -> None:
        self._consumer.close()
