from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.client import Record
from conformance.scenarios.run import Run, attempt

if TYPE_CHECKING:
    from conformance.client import Client, Json

TIME_MS = 1_700_000_000_000


def auto_create(client: Client, run: Run) -> Json:
    """A producer's first record to an absent topic creates it, with the broker's defaults."""
    topic = run.topic("by-itself")
    record = Record(b"first", timestamp_ms=TIME_MS)
    return {
        "produced": attempt(lambda: client.produce(topic, [record], codec="none", acks="1")),
        "described": attempt(lambda: list(client.describe_topic(topic))),
        "consumed": attempt(lambda: list(client.consume(topic, 1))),
    }
