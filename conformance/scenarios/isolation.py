from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from conformance.preparation import wait_for_end
from conformance.scenarios.groups import read
from conformance.scenarios.run import Run, create

if TYPE_CHECKING:
    from conformance.client import Client, Json


def isolation(client: Client, run: Run) -> Json:
    """Interleaved transactions and plain records in one log, at both levels, before and after the last one ends."""
    topic = run.topic("interleaved")
    create(client, topic, configs={"retention.ms": "-1"})
    seen: dict[str, Json] = {}
    with (
        closing(client.open_producer(run.topic("left"))) as left,
        closing(client.open_producer(run.topic("right"))) as right,
        closing(client.open_producer(None)) as plain,
    ):
        for producer in (left, right):
            producer.init()
            producer.begin()
        sent = [left.send(topic, b"left 1"), right.send(topic, b"right 1"), plain.send(topic, b"plain 1")]
        left.commit()
        wait_for_end(run.address, topic, 4)
        sent += [plain.send(topic, b"plain 2"), right.send(topic, b"right 2")]
        right.abort()
        wait_for_end(run.address, topic, 7)
        sent.append(plain.send(topic, b"plain 3"))
        left.begin()
        sent += [left.send(topic, b"left 2"), plain.send(topic, b"plain 4")]
        seen["sent"] = sent
        with closing(client.open_consumer(topic, run.topic("committed"), isolation="read_committed")) as consumer:
            seen["committed, one is open"] = read(consumer, 4)
            seen["nothing behind it"] = consumer.poll(1.0)
            left.commit()
            wait_for_end(run.address, topic, 11)
            seen["committed, all have ended"] = read(consumer, 2)
        with closing(client.open_consumer(topic, run.topic("uncommitted"))) as consumer:
            seen["uncommitted"] = read(consumer, 8)
    return seen
