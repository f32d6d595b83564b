from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from conformance.client import OPERATION_TIMEOUT_S, ClientError, Json, Record
from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from conformance.client import Client, GroupConsumer

COUNT = 5
PARTITIONS = 4
TIME_MS = 1_700_000_000_000
PROTOCOLS = ("classic", "consumer")


def groups(client: Client, run: Run) -> Json:
    """Subscribe, commit, come back to where one was; with and without a static member, in both protocols."""
    seen: dict[str, Json] = {}
    for protocol in PROTOCOLS:
        for instance in (None, "instance-1"):
            label = f"{protocol}{', static' if instance else ''}"
            seen[label] = attempt(partial(_come_and_go, client, run, protocol, instance))
    return seen


def rebalance(client: Client, run: Run) -> Json:
    """A second member gets half of the partitions, and the first gets them back when it leaves."""
    return {protocol: attempt(partial(_share, client, run, protocol)) for protocol in PROTOCOLS}


def _come_and_go(client: Client, run: Run, protocol: str, instance: str | None) -> Json:
    name = f"{protocol}-{instance}"
    topic, group = run.topic(name), run.topic(f"group-{name}")
    create(client, topic, configs={"retention.ms": "-1"})
    records = [Record(b"%d" % index, timestamp_ms=TIME_MS) for index in range(COUNT)]
    client.produce(topic, records[:3], codec="none", acks="all")
    seen: dict[str, Json] = {}
    with closing(client.open_consumer(topic, group, protocol=protocol, instance=instance)) as consumer:
        seen["before"] = consumer.committed(0)
        seen["first"] = read(consumer, 3)
        seen["commit"] = consumer.commit()
        seen["committed"] = consumer.committed(0)
    client.produce(topic, records[3:], codec="none", acks="all")
    with closing(client.open_consumer(topic, group, protocol=protocol, instance=instance)) as consumer:
        seen["second"] = read(consumer, 2)
        seen["not committed"] = consumer.committed(0)
    with closing(client.open_consumer(topic, group, protocol=protocol, instance=instance)) as consumer:
        seen["again"] = read(consumer, 2)
    return seen


def _share(client: Client, run: Run, protocol: str) -> Json:
    topic, group = run.topic(f"shared-{protocol}"), run.topic(f"group-shared-{protocol}")
    create(client, topic, partitions=PARTITIONS)
    with closing(client.open_consumer(topic, group, protocol=protocol)) as first:
        _settle([first], [PARTITIONS])
        with closing(client.open_consumer(topic, group, protocol=protocol)) as second:
            _settle([first, second], [PARTITIONS // 2, PARTITIONS // 2])
        _settle([first], [PARTITIONS])
    return "shared and given back"


def read(consumer: GroupConsumer, count: int, timeout_s: float = OPERATION_TIMEOUT_S) -> Json:
    records: list[Json] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count:
        if time.monotonic() > deadline:
            raise ClientError(f"only {len(records)} of {count} records arrived")
        records += consumer.poll(1.0)
    return records


def _settle(consumers: list[GroupConsumer], wanted: list[int]) -> None:
    deadline = time.monotonic() + 2 * OPERATION_TIMEOUT_S
    while (have := [consumer.assigned() for consumer in consumers]) != wanted:
        if time.monotonic() > deadline:
            raise ClientError(f"partitions are given as {have}, not as {wanted}")
        for consumer in consumers:
            consumer.poll(0.1)
