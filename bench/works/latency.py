"""Tail latency of single records: a produce until its ack, and a produce until a consumer's poll returns it."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from confluent_kafka import TopicPartition

from bench.case import Case, Work
from bench.clients import confluent
from bench.clients.confluent import ClientError
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.stats import latency_sample

_TIMEOUT_S = 30.0
_VALUE = bytes(100)
# The first of a connection bring metadata, producer id and the first long poll.
_FIRST = 50


class ProduceLatency(Case):
    """One record at a time, idempotent, acks=all, no lingering."""

    headline = "p50_ms"
    seconds_factor = 2.0

    def __init__(self) -> None:
        peers = ("kafka", "kafka-fsync", "oncelog", "oncelog-fsync", "kfake", "floor", "floor-fsync")
        super().__init__("single produce", peers, kind="produce")

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with confluent.topic(peer, f"latency-{turn}", 1) as topic:
            reporting = confluent.ReportingProducer(peer, **{"linger.ms": 0, "delivery.report.only.error": False})
            producer = reporting.producer

            def once() -> None:
                acked: list[object] = []
                producer.produce(topic, _VALUE, on_delivery=lambda error, _: acked.append(error))
                while not acked:
                    producer.poll(_TIMEOUT_S)
                if acked[0] is not None:
                    raise ClientError(f"a record was not delivered: {acked[0]}")

            try:
                return timed(peer, once, seconds)
            finally:
                reporting.close()


class EndToEnd(Case):
    """One record at a time from a producer to a read_committed consumer that waits for it in a long poll."""

    headline = "p50_ms"
    seconds_factor = 2.0

    def __init__(self) -> None:
        peers = ("kafka", "kafka-fsync", "oncelog", "oncelog-fsync", "kfake")
        super().__init__("end to end", peers, kind="end to end")

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with confluent.topic(peer, f"end-to-end-{turn}", 1) as topic, confluent.consumer(peer) as reader:
            reader.assign([TopicPartition(topic, 0, 0)])
            reporting = confluent.ReportingProducer(peer, **{"linger.ms": 0})
            producer = reporting.producer

            def once() -> None:
                producer.produce(topic, _VALUE, on_delivery=reporting.fail)
                deadline = time.monotonic() + _TIMEOUT_S
                while (message := reader.poll(1.0)) is None:
                    if time.monotonic() > deadline:
                        raise ClientError(f"a record had not arrived after {_TIMEOUT_S:.0f} s")
                if message.error() is not None:
                    raise ClientError(f"the consumer got {message.error()}")
                producer.poll(0)

            try:
                return timed(peer, once, seconds)
            finally:
                reporting.close()


def timed(peer: Peer, once: Callable[[], None], seconds: float) -> Sample:
    for _ in range(_FIRST):
        once()
    latencies_s = []
    with Meter(peer) as meter:
        now = time.perf_counter()
        deadline = now + seconds
        while now < deadline:
            once()
            done = time.perf_counter()
            latencies_s.append(done - now)
            now = done
    return latency_sample(latencies_s) | meter.sample(requests=len(latencies_s))


class Latency(Work):
    name = "latency"
    title = "Latency of single records"
    quick = {}

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--only", choices=("produce", "end-to-end"), help="one of the two")

    def cases(self, options: Namespace) -> Sequence[Case]:
        cases: dict[str, Case] = {"produce": ProduceLatency(), "end-to-end": EndToEnd()}
        return [case for name, case in cases.items() if options.only in (None, name)]
