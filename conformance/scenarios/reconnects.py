from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from conformance.client import OPERATION_TIMEOUT_S, ClientError, UnsupportedError
from conformance.scenarios.groups import read
from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from conformance.client import Client, GroupConsumer, Json

PATIENCE_S = 4 * OPERATION_TIMEOUT_S
"""A broker that comes back loads its groups, and a consumer may have to join again, before a client can go on."""


def reconnects(client: Client, run: Run) -> Json:
    """A consumer in its group and a producer stay open while the broker stops and comes back, and go on."""
    if run.restart is None or run.crash is None:
        raise UnsupportedError("the broker belongs to somebody else")
    topic, group = run.topic("lasting"), run.topic("group-lasting")
    create(client, topic, configs={"retention.ms": "-1"})
    seen: dict[str, Json] = {}
    with (
        closing(client.open_producer(None)) as producer,
        closing(client.open_consumer(topic, group)) as consumer,
    ):
        seen["before"] = [producer.send(topic, b"before"), read(consumer, 1), consumer.commit()]
        for label, bring_down in (("stopped", run.restart), ("killed", run.crash)):
            bring_down()
            seen[f"{label}, sent"] = attempt(lambda: producer.send(topic, b"after"))
            seen[f"{label}, read"] = attempt(lambda: read(consumer, 1, PATIENCE_S))
            seen[f"{label}, committed"] = attempt(lambda: commit_in_the_end(consumer))
    return seen


def commit_in_the_end(consumer: GroupConsumer) -> Json:
    """As an application commits, which tries again while its coordinator is not there yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return [consumer.commit(), consumer.committed(0)]
        except ClientError:
            if time.monotonic() > deadline:
                raise
        consumer.poll(0.5)
