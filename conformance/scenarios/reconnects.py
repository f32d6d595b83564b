from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from conformance.client import UnsupportedError
from conformance.scenarios.groups import read
from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from conformance.client import Client, Json


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
            seen[f"{label}, read"] = attempt(lambda: read(consumer, 1))
            seen[f"{label}, committed"] = attempt(lambda: [consumer.commit(), consumer.committed(0)])
    return seen
