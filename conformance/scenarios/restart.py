from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from conformance.client import Record, UnsupportedError
from conformance.scenarios.groups import read
from conformance.scenarios.run import Run, attempt, create, timeless

if TYPE_CHECKING:
    from conformance.client import Client, Json

TIME_MS = 1_700_000_000_000


def restart(client: Client, run: Run) -> Json:
    """The broker is killed and started again: acked records, offsets and the same connections go on."""
    if run.crash is None:
        raise UnsupportedError("the broker belongs to somebody else")
    topic, group = run.topic("survivor"), run.topic("group-survivor")
    create(client, topic, configs={"retention.ms": "-1"})
    seen: dict[str, Json] = {}
    with closing(client.open_producer(None)) as producer:
        seen["before"] = [producer.send(topic, b"%d" % index) for index in range(3)]
        with closing(client.open_consumer(topic, group)) as consumer:
            seen["read"] = read(consumer, 3)
            seen["commit"] = consumer.commit()
        run.crash()
        seen["after"] = attempt(lambda: producer.send(topic, b"3"))
    with closing(client.open_consumer(topic, group)) as consumer:
        seen["read after"] = read(consumer, 1)
        seen["committed"] = consumer.committed(0)
    seen["all"] = attempt(lambda: [timeless(record) for record in client.consume(topic, 4)])
    record = Record(b"last", timestamp_ms=TIME_MS)
    seen["produced"] = attempt(lambda: client.produce(topic, [record], codec="none", acks="all"))
    return seen
