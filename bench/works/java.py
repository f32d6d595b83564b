"""The same with Java's client: Kafka's own ProducerPerformance and ConsumerPerformance, eight partitions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from bench.case import BROKERS, Case, Work, numbers
from bench.clients import confluent, java, wire
from bench.meter import Meter, Sample
from bench.peers.base import Peer

_PARTITIONS = 8
_BATCH_BYTES = 64_000
# About what the tools do in a second once their JVM is warm.
_RECORDS_PER_SECOND = {100: 400_000, 1000: 100_000, 10_000: 12_000}


class JavaCase(Case):
    headline = "mb_per_s"
    # Every sample has a JVM of its own to start, beside its seconds of load, of which the first are not counted.
    warmups = 0

    def __init__(self, kind: str, size: int, peers: Sequence[str]) -> None:
        super().__init__(f"{kind} {size} B x {_PARTITIONS}", peers, kind=kind, size=size, partitions=_PARTITIONS)
        self._size = size
        self._records = 0
        self.extra_seconds = 6.0

    def prepare(self, peer: Peer, seconds: float) -> None:
        self._records = round(max(1.0, seconds) * _RECORDS_PER_SECOND.get(self._size, 50_000))

    def _sample(self, peer: Peer, meter: Meter, told: java.Told) -> Sample:
        """The tool's own rates; the broker's CPU for all its records; cores would count the JVM's start, hence none."""
        return {
            "mb_per_s": told.megabytes_per_s,
            "records_per_s": told.records_per_s,
            **told.latencies,
            "cpu_ms_per_mb": meter.broker_cpu_s * 1e3 / (self._records * self._size / 1e6),
            "client_cpu_s": told.client_cpu_s,
            "rss_mb": peer.rss_megabytes(),
        }


class JavaProduce(JavaCase):
    def __init__(self, size: int) -> None:
        super().__init__("produce", size, BROKERS)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with confluent.topic(peer, f"java-produce-{self._size}-{turn}", _PARTITIONS) as topic, Meter(peer) as meter:
            told = java.produce(peer, topic, self._records, self._size)
        return self._sample(peer, meter, told)


class JavaConsume(JavaCase):
    def __init__(self, size: int) -> None:
        super().__init__("consume", size, ("kafka", "oncelog"))
        self._topic = f"java-consume-{size}-{_PARTITIONS}"

    def prepare(self, peer: Peer, seconds: float) -> None:
        super().prepare(peer, seconds)
        confluent.create_topic(peer, self._topic, _PARTITIONS)
        megabytes = self._records * self._size / 1e6
        self._records = wire.fill(peer.bootstrap_servers, self._topic, _PARTITIONS, megabytes, self._size, _BATCH_BYTES)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with Meter(peer) as meter:
            told = java.consume(peer, self._topic, self._records, self._size)
        return self._sample(peer, meter, told)

    def finish(self, peer: Peer) -> None:
        confluent.delete_topic(peer, self._topic)


class Java(Work):
    name = "java"
    title = "Java's ProducerPerformance and ConsumerPerformance"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--size", type=numbers, default=[100, 1000, 10_000], help="of a record, bytes; a list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [make(size) for make in (JavaProduce, JavaConsume) for size in options.size]
