"""Consume throughput: read_committed, from the beginning, one confluent-kafka consumer with assigned partitions.

The log is the same for every peer, batch by batch: it is filled with requests made beforehand.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from confluent_kafka import TopicPartition

from bench.case import Case, Work, numbers
from bench.clients import confluent, wire
from bench.meter import Meter, Sample
from bench.peers.base import Peer

_MIDDLE = 8
PEERS = ("kafka", "oncelog", "oncelog-fsync", "kfake")
# About what a client reads in a second here, so that a round takes about the seconds that were asked for.
_MEGABYTES_PER_SECOND = {100: 90, 1000: 500, 10_000: 700}
_BATCH_BYTES = 64_000


class ConsumeCase(Case):
    headline = "mb_per_s"
    extra_seconds = 5.0

    def __init__(self, size: int, partitions: int) -> None:
        # All take part in the middle; elsewhere those that the goals are about, for the sake of time.
        peers = PEERS if partitions == _MIDDLE else ("kafka", "oncelog")
        super().__init__(f"{size} B x {partitions}", peers, size=size, partitions=partitions)
        self._size, self._partitions = size, partitions
        self._topic = f"consume-{size}-{partitions}"
        self._records = 0

    def prepare(self, peer: Peer, seconds: float) -> None:
        megabytes = seconds * _MEGABYTES_PER_SECOND.get(self._size, 100)
        confluent.create_topic(peer, self._topic, self._partitions)
        self._records = wire.fill(
            peer.bootstrap_servers, self._topic, self._partitions, megabytes, self._size, _BATCH_BYTES
        )

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        statistics = confluent.Statistics()
        with confluent.consumer(peer, **statistics.settings) as reader:
            with Meter(peer) as meter:
                reader.assign([TopicPartition(self._topic, partition, 0) for partition in range(self._partitions)])
                confluent.read(reader, self._records)
            requests = statistics.requests("Fetch", reader.poll)
        return meter.sample(records=self._records, megabytes=self._records * self._size / 1e6, requests=requests)

    def finish(self, peer: Peer) -> None:
        confluent.delete_topic(peer, self._topic)


class Consume(Work):
    name = "consume"
    title = "Consume throughput, read_committed"
    quick = {"size": [100, 1000, 10_000], "partitions": [8]}

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--size", type=numbers, default=[100, 1000, 10_000], help="of a record, bytes; a list")
        parser.add_argument("--partitions", type=numbers, default=[1, 8, 64], help="a list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [ConsumeCase(size, partitions) for size in options.size for partitions in options.partitions]
