from __future__ import annotations

import time
from typing import TYPE_CHECKING

from conformance.client import Record
from conformance.scenarios.run import Run, attempt

if TYPE_CHECKING:
    from conformance.client import Client, Json

_DAY_S = 24 * 3600
# The topic has the default retention: an old record would not stay.
TIME_MS = int(time.time()) // _DAY_S * _DAY_S * 1000


def auto_create(client: Client, run: Run) -> Json:
    """A producer's first record to an absent topic creates it, with the broker's defaults."""
    topic = run.topic("by-itself")
    record = Record(b"first", timestamp_ms=TIME_MS)
    return {
        "produced": attempt(lambda: client.produce(topic, [record], codec="none", acks="1")),
        "described": attempt(lambda: list(client.describe_topic(topic))),
        "consumed": attempt(lambda: list(client.consume(topic, 1))),
    }
