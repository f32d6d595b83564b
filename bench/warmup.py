"""Warms a peer up before its first case: a JVM that has just started is several times slower than a minute later."""

from __future__ import annotations

from confluent_kafka import TopicPartition

from bench.clients import confluent
from bench.peers.base import Peer

_SIZES = (100, 1000, 10_000)


def warm_up(peer: Peer, seconds: float) -> None:
    """Produces and consumes for about that long; every peer gets the same."""
    for size in _SIZES:
        with confluent.topic(peer, f"warmup-{size}", 4) as topic:
            producer = confluent.CountingProducer(peer)
            try:
                count = confluent.produce_for(producer, topic, size, seconds / len(_SIZES) * 0.7)
            finally:
                producer.close()
            if peer.creates_topics:
                with confluent.consumer(peer) as reader:
                    reader.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
                    confluent.read(reader, count)
