"""One-record transactions per second, begin, produce, commit in sequence: `python -m bench.transactions`."""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import ExitStack
from typing import NamedTuple

from confluent_kafka import Producer

from bench.brokers import Broker, apache_kafka, oncelog


class Figure(NamedTuple):
    per_second: float
    p50_ms: float
    p99_ms: float
    broker_cpu_ms: float


def measure(broker: Broker, count: int, turn: int) -> Figure:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": f"bench-{turn}",
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    for _ in range(20):
        run_one(producer)
    cpu_before, started = broker.cpu_seconds(), time.monotonic()
    durations = sorted(run_one(producer) for _ in range(count))
    elapsed = time.monotonic() - started
    cpu_ms = (broker.cpu_seconds() - cpu_before) / count * 1000
    return Figure(count / elapsed, durations[count // 2] * 1000, durations[count * 99 // 100] * 1000, cpu_ms)


def run_one(producer: Producer) -> float:
    started = time.monotonic()
    producer.begin_transaction()
    producer.produce("bench-transactions", b"x" * 100)
    producer.commit_transaction(30)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    with ExitStack() as stack:
        brokers = [
            stack.enter_context(apache_kafka()),
            stack.enter_context(oncelog(flush_on_ack=False)),
            stack.enter_context(oncelog(flush_on_ack=True)),
        ]
        figures: dict[str, list[Figure]] = {broker.name: [] for broker in brokers}
        for turn in range(options.rounds + 1):
            for broker in brokers:
                figure = measure(broker, options.count, turn)
                if turn:
                    figures[broker.name].append(figure)
    base: Figure | None = None
    print(f"{'broker':14} {'txn/s':>8} {'ratio':>6} {'p50 ms':>8} {'p99 ms':>8} {'CPU ms':>8}")
    for name, measured in figures.items():
        median = Figure(*(statistics.median(values) for values in zip(*measured, strict=True)))
        base = base or median
        print(
            f"{name:14} {median.per_second:8.1f} {median.per_second / base.per_second:6.2f} "
            f"{median.p50_ms:8.2f} {median.p99_ms:8.2f} {median.broker_cpu_ms:8.2f}"
        )


if __name__ == "__main__":
    main()
