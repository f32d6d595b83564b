"""Produce throughput: idempotent, acks=all, linger 5 ms, random values, one confluent-kafka producer."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from bench import machine
from bench.case import BROKERS, WRITTEN_BYTES_MAX, Case, Work, numbers
from bench.clients import confluent
from bench.meter import Meter, Sample
from bench.peers.base import Peer

_MIDDLE, _LARGEST = 8, 10_000
PEERS = ("kafka", "kafka-fsync", "oncelog", "oncelog-fsync", "kfake", "floor")


class ProduceCase(Case):
    headline = "mb_per_s"

    def __init__(self, size: int, partitions: int) -> None:
        # All take part in the middle; elsewhere those that the goals are about, for the sake of time.
        peers = PEERS if partitions == _MIDDLE else (*BROKERS, "floor") if size == _LARGEST else BROKERS
        super().__init__(f"{size} B x {partitions}", peers, size=size, partitions=partitions)
        self._size, self._partitions = size, partitions

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        machine.have_memory_at_hand(WRITTEN_BYTES_MAX)
        with confluent.topic(peer, f"produce-{self._size}-{turn}", self._partitions) as topic:
            producer = confluent.CountingProducer(peer)
            try:
                # The first records bring metadata and producer id, which are no part of throughput.
                confluent.produce_for(producer, topic, self._size, 0.05)
                requests = producer.requests()
                with Meter(peer) as meter:
                    records = confluent.produce_for(producer, topic, self._size, seconds, WRITTEN_BYTES_MAX)
                requests = producer.requests() - requests
            finally:
                producer.close()
        return meter.sample(records=records, megabytes=records * self._size / 1e6, requests=requests)


class Produce(Work):
    name = "produce"
    title = "Produce throughput"
    quick = {"size": [100, 1000, 10_000], "partitions": [8]}

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--size", type=numbers, default=[100, 1000, 10_000], help="of a record, bytes; a list")
        parser.add_argument("--partitions", type=numbers, default=[1, 8, 64], help="a list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [ProduceCase(size, partitions) for size in options.size for partitions in options.partitions]
