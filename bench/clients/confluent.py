"""confluent-kafka as the benches use it: idempotent, acks=all, and cheap enough to leave the broker its core.

`produce_batch` costs the client a third less per record than `produce`; only failed deliveries are reported to Python.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.clients import wire
from bench.peers.base import Peer

FLUSH_TIMEOUT_S = 120.0
TRANSACTION_TIMEOUT_S = 60.0
_QUIET = {"log_level": 0}
# By default librdkafka stops fetching for a second when it is 100,000 records ahead, whatever the broker can do.
_READ_AHEAD = {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 131_072, "fetch.queue.backoff.ms": 2}
_STATISTICS_MS = 100
_STATISTICS_TIMEOUT_S = 5.0
_CHUNK_BYTES = 200_000


class ClientError(Exception):
    """A record was not delivered, or did not arrive."""


@contextmanager
def topic(peer: Peer, stem: str, partitions: int) -> Iterator[str]:
    """A new topic whose name ends in the number of its partitions; deleted afterwards."""
    name = f"{stem}-{partitions}"
    create_topic(peer, name, partitions)
    try:
        yield name
    finally:
        delete_topic(peer, name)


def create_topic(peer: Peer, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
    if peer.creates_topics:
        new = NewTopic(name, partitions, 1, config=dict(settings or {}))
        admin = _admin(peer)
        for future in admin.create_topics([new], operation_timeout=60).values():
            future.result(90)
        wire.end_offsets(peer.bootstrap_servers, name, partitions)


def delete_topic(peer: Peer, name: str) -> None:
    if not peer.creates_topics:
        peer.forget_topic(name)
    elif peer.is_running:
        admin = _admin(peer)
        for future in admin.delete_topics([name], operation_timeout=60).values():
            future.result(90)


def _admin(peer: Peer) -> AdminClient:
    """Its answers come only while it lives."""
    return AdminClient({"bootstrap.servers": peer.bootstrap_servers, **_QUIET})


class Statistics:
    """Keeps librdkafka's latest statistics, for the number of requests that it has sent."""

    def __init__(self) -> None:
        self.settings = {"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._keep}
        self._latest: dict[str, Any] = {}

    def requests(self, kind: str, poll: Callable[[float], object]) -> int:
        """Up to the next statistics, for which the client is polled."""
        self._latest = {}
        deadline = time.monotonic() + _STATISTICS_TIMEOUT_S
        while not self._latest and time.monotonic() < deadline:
            poll(_STATISTICS_MS / 1000)
        return sum(broker["req"].get(kind, 0) for broker in self._latest.get("brokers", {}).values())

    def _keep(self, text: str) -> None:
        self._latest = json.loads(text)


class ReportingProducer:
    """A producer that keeps the errors of deliveries."""

    def __init__(self, peer: Peer, **settings: object) -> None:
        self._errors: list[object] = []
        self.producer = Producer(
            {
                "bootstrap.servers": peer.bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "delivery.report.only.error": True,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 65_536,
                **_QUIET,
                **settings,
            }
        )

    def fail(self, error: object, _: object) -> None:
        if error is not None:
            self._errors.append(error)

    def flush(self) -> None:
        left = self.producer.flush(FLUSH_TIMEOUT_S)
        if self._errors:
            raise ClientError(f"{len(self._errors)} records were not delivered, the first because of {self._errors[0]}")
        if left:
            raise ClientError(f"{left} records were not delivered within {FLUSH_TIMEOUT_S:.0f} s")

    def close(self) -> None:
        self.producer.close()


class CountingProducer(ReportingProducer):
    """One that also knows how many Produce requests it has sent; the statistics interrupt it ten times a second."""

    def __init__(self, peer: Peer, **settings: object) -> None:
        self._statistics = Statistics()
        super().__init__(peer, **self._statistics.settings, **settings)

    def requests(self) -> int:
        return self._statistics.requests("Produce", self.producer.poll)


def produce_for(
    reporting: ReportingProducer, name: str, record_bytes: int, seconds: float, bytes_max: float = math.inf
) -> int:
    """Records produced in that time and delivered, with the flush at the end; no more than so many bytes."""
    producer = reporting.producer
    chunk = [{"value": os.urandom(record_bytes)} for _ in range(max(1, min(1000, _CHUNK_BYTES // record_bytes)))]
    count = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and count * record_bytes < bytes_max:
        queued = producer.produce_batch(name, chunk, on_delivery=reporting.fail)
        count += queued
        if queued < len(chunk):
            # The queue is full: librdkafka has marked those that did not fit.
            for message in chunk:
                message.pop("_error", None)
            producer.poll(0.005)
        else:
            producer.poll(0)
    reporting.flush()
    return count


def commit_one(producer: Producer, name: str, value: bytes, records: int = 1) -> None:
    """One transaction, from its begin to its commit."""
    producer.begin_transaction()
    for _ in range(records):
        producer.produce(name, value)
    producer.commit_transaction(TRANSACTION_TIMEOUT_S)


def read(reader: Consumer, count: int, timeout_s: float = 60.0) -> None:
    """Polls until that many records have come."""
    received = 0
    deadline = time.monotonic() + timeout_s
    while received < count:
        messages = reader.consume(min(10_000, count - received), 0.5)
        for message in messages:
            if message.error() is not None:
                raise ClientError(f"the consumer got {message.error()}")
        received += len(messages)
        if time.monotonic() > deadline:
            raise ClientError(f"{received} of {count} records had arrived after {timeout_s:.0f} s")


@contextmanager
def consumer(peer: Peer, **settings: object) -> Iterator[Consumer]:
    reader = Consumer(
        {
            "bootstrap.servers": peer.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **_READ_AHEAD,
            **_QUIET,
            **settings,
        }
    )
    try:
        yield reader
    finally:
        reader.close()
