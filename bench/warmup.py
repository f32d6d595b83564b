"""Warms a peer up before its first case: a JVM that has just started is several times slower than a minute later."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from confluent_kafka import TopicPartition

from bench.clients import confluent
from bench.peers.base import Peer

_SIZES = (100, 1000, 10_000)
# Up to about here Apache Kafka's transactions get faster: a cold one answers several times more slowly.
TRANSACTIONS = 8000
# The others are as fast after a few as after many.
_WITHOUT_COMPILER = 0.05
_PRODUCERS = 16
# The process of a peer that has had its transactions; one that was started again is cold.
_warm: WeakKeyDictionary[Peer, int] = WeakKeyDictionary()


def warm_up(peer: Peer, seconds: float) -> None:
    """Produces and consumes for about that long; every peer gets the same."""
    for size in _SIZES:
        with confluent.topic(peer, f"warmup-{size}", 4) as topic:
            producer = confluent.ReportingProducer(peer)
            try:
                count = confluent.produce_for(producer, topic, size, seconds / len(_SIZES) * 0.7)
            finally:
                producer.close()
            if peer.creates_topics:
                with confluent.consumer(peer) as reader:
                    reader.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
                    confluent.read(reader, count)


def warm_up_transactions(peer: Peer, transactions: int) -> None:
    """Commits so many once, or a few where there is no compiler to wait for.

    Several producers do it at a time, since one alone mostly waits.
    """
    if not transactions or _warm.get(peer) == peer.pid:
        return
    with confluent.topic(peer, "warmup-transactions", 1) as topic, ThreadPoolExecutor(_PRODUCERS) as threads:
        count = math.ceil(transactions * (1 if peer.compiles_itself else _WITHOUT_COMPILER) / _PRODUCERS)
        for done in [threads.submit(commit, peer, topic, f"warmup-{one}", count) for one in range(_PRODUCERS)]:
            done.result()
    _warm[peer] = peer.pid


def commit(peer: Peer, topic: str, transactional_id: str, count: int) -> None:
    reporting = confluent.ReportingProducer(peer, **{"transactional.id": transactional_id, "linger.ms": 0})
    try:
        reporting.producer.init_transactions(confluent.TRANSACTION_TIMEOUT_S)
        for _ in range(count):
            confluent.commit_one(reporting.producer, topic, bytes(100))
    finally:
        reporting.close()
