from __future__ import annotations

import time
from typing import TYPE_CHECKING

from conformance.client import ClientError, Record
from conformance.preparation import quota
from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.client import Client, Json

TIME_MS = 1_700_000_000_000
RATE_BYTES_PER_S = 100_000
RECORD_SIZE_BYTES = 150_000
COUNT = 6
THROTTLED_S_MIN = 3.0
"""With samples over two seconds, six records of 1.5 times the rate cannot be through in less."""


def quotas(client: Client, run: Run) -> Json:
    """A client above its byte rate is held back, in both directions, and loses nothing."""
    topic = run.topic("rationed")
    create(client, topic, configs={"retention.ms": "-1"})
    records = [Record(b"%d" % index * RECORD_SIZE_BYTES, timestamp_ms=TIME_MS) for index in range(COUNT)]

    def produce() -> Json:
        return client.produce(topic, records, codec="none", acks="1")

    def consume() -> Json:
        return [_value(record) for record in client.consume(topic, COUNT)]

    return {
        "produce": attempt(lambda: _throttled(run, "producer_byte_rate", produce)),
        "consume": attempt(lambda: _throttled(run, "consumer_byte_rate", consume)),
        "produce without": attempt(produce),
        "consume without": attempt(consume),
    }


def _throttled(run: Run, name: str, call: Callable[[], Json]) -> Json:
    with quota(run.address, name, RATE_BYTES_PER_S):
        started = time.monotonic()
        seen = call()
        elapsed_s = time.monotonic() - started
    if elapsed_s < THROTTLED_S_MIN:
        raise ClientError(f"not throttled: {elapsed_s:.1f} s")
    return {"seen": seen, "throttled": True}


def _value(record: Json) -> Json:
    assert isinstance(record, dict)
    return record["value"]
