"""A rebalance of many members over many partitions, and what idle groups cost: `python -m bench.groups`.

All members of a group are in this process. Measured is the time from the first subscribe until every partition is
owned, once, and then from the moment a member leaves until its partitions are owned again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import ExitStack
from typing import NamedTuple

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import Broker, apache_kafka, oncelog

PATIENCE_SECONDS = 120


class Figure(NamedTuple):
    join_seconds: float
    leave_seconds: float
    broker_cpu_seconds: float


def measure(broker: Broker, members: int, partitions: int, protocol: str, turn: int) -> Figure:
    topic = f"rebalance-{protocol}-{turn}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(60)
    consumers = [
        Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": topic,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        for _ in range(members)
    ]
    cpu_before, started = broker.cpu_seconds(), time.monotonic()
    for consumer in consumers:
        consumer.subscribe([topic])
    wait_until_owned(consumers, partitions)
    joined = time.monotonic()
    consumers.pop().close()
    wait_until_owned(consumers, partitions)
    left = time.monotonic()
    cpu = broker.cpu_seconds() - cpu_before
    for consumer in consumers:
        consumer.close()
    return Figure(joined - started, left - joined, cpu)


def wait_until_owned(consumers: list[Consumer], partitions: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        for consumer in consumers:
            consumer.poll(0)
        owned = [part.partition for consumer in consumers for part in consumer.assignment()]
        if len(owned) == partitions and len(set(owned)) == partitions:
            return
        assert time.monotonic() < deadline, f"{len(set(owned))} of {partitions} partitions are owned"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1000)
    options = parser.parse_args()
    with ExitStack() as stack:
        brokers = [stack.enter_context(apache_kafka()), stack.enter_context(oncelog(flush_on_ack=False))]
        print(f"{'protocol':10} {'broker':10} {'join s':>8} {'leave s':>8} {'ratio':>6} {'CPU s':>8} {'ratio':>6}")
        for protocol in ("classic", "consumer"):
            figures: dict[str, list[Figure]] = {broker.name: [] for broker in brokers}
            for turn in range(options.rounds):
                for broker in brokers:
                    figure = measure(broker, options.members, options.partitions, protocol, turn)
                    figures[broker.name].append(figure)
            report(protocol, figures)


def report(protocol: str, figures: dict[str, list[Figure]]) -> None:
    base: Figure | None = None
    for name, measured in figures.items():
        median = Figure(*(statistics.median(values) for values in zip(*measured, strict=True)))
        base = base or median
        print(
            f"{protocol:10} {name:10} {median.join_seconds:8.2f} {median.leave_seconds:8.2f} "
            f"{median.join_seconds / base.join_seconds:6.2f} {median.broker_cpu_seconds:8.2f} "
            f"{median.broker_cpu_seconds / base.broker_cpu_seconds:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
