"""Produce throughput and the broker's CPU per MB, at several record sizes: `python -m bench.produce`.

Idempotent, acks=all, linger 5 ms, random payload, one confluent-kafka producer in this process. The brokers take
turns; the first round warms them up and is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from contextlib import ExitStack
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import Broker, apache_kafka, oncelog


class Work(NamedTuple):
    name: str
    record_bytes: int
    partitions: int
    megabytes: int


WORKS = (
    Work("100 B x1", 100, 1, 150),
    Work("1 KB x8", 1000, 8, 500),
    Work("10 KB x1", 10_000, 1, 600),
)


class Figure(NamedTuple):
    megabytes_per_second: float
    cpu_seconds_per_100_mb: float


def produce(broker: Broker, work: Work, topic: str) -> Figure:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    created = admin.create_topics([NewTopic(topic, work.partitions, 1)])
    for future in created.values():
        future.result(30)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
        }
    )
    failures: list[object] = []
    payload = os.urandom(work.record_bytes + 4096)
    count = work.megabytes * 1_000_000 // work.record_bytes
    cpu_before, started = broker.cpu_seconds(), time.monotonic()
    for index in range(count):
        start = index & 4095
        value = payload[start : start + work.record_bytes]
        while True:
            try:
                producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
                break
            except BufferError:
                producer.poll(0.05)
        if not index & 1023:
            producer.poll(0)
    producer.flush(60)
    elapsed = time.monotonic() - started
    assert not failures, failures[:3]
    cpu = broker.cpu_seconds() - cpu_before
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    return Figure(work.megabytes / elapsed, cpu / work.megabytes * 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the names of the works to run")
    options = parser.parse_args()
    with ExitStack() as stack:
        brokers = [
            stack.enter_context(apache_kafka()),
            stack.enter_context(oncelog(flush_on_ack=False)),
            stack.enter_context(oncelog(flush_on_ack=True)),
        ]
        print(f"{'work':10} {'broker':14} {'MB/s':>8} {'ratio':>6} {'CPU s/100 MB':>13} {'ratio':>6}")
        for work in WORKS:
            if options.only not in work.name:
                continue
            figures: dict[str, list[Figure]] = {broker.name: [] for broker in brokers}
            for turn in range(options.rounds + 1):
                for broker in brokers:
                    figure = produce(broker, work, f"bench-{work.record_bytes}-{turn}")
                    if turn:
                        figures[broker.name].append(figure)
            report(work, figures)


def report(work: Work, figures: dict[str, list[Figure]]) -> None:
    base: Figure | None = None
    for name, measured in figures.items():
        median = Figure(*(statistics.median(values) for values in zip(*measured, strict=True)))
        base = base or median
        print(
            f"{work.name:10} {name:14} {median.megabytes_per_second:8.1f} "
            f"{median.megabytes_per_second / base.megabytes_per_second:6.2f} "
            f"{median.cpu_seconds_per_100_mb:13.3f} "
            f"{median.cpu_seconds_per_100_mb / base.cpu_seconds_per_100_mb:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
