from __future__ import annotations

import time
from typing import TYPE_CHECKING

from conformance.client import ClientError, Record, wait_until
from conformance.scenarios.run import Run, create, timeless

if TYPE_CHECKING:
    from conformance.client import Client, Json

TIME_MS = 1_700_000_000_000
SEGMENT_MS = 100
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": str(SEGMENT_MS),
    "min.cleanable.dirty.ratio": "0.01",
}
RECORDS = (
    (b"a", b"1"),
    (b"b", b"2"),
    (b"a", b"3"),
    (b"c", b"4"),
    (b"b", None),
    (b"a", b"5"),
    (b"d", b"6"),
    (b"end", b"7"),
)
"""The last is in the active segment, which no cleaner touches."""

SURVIVING_OFFSETS = [3, 4, 5, 6, 7]


def compaction(client: Client, run: Run) -> Json:
    """Of each key the last value stays, under its own offset, and so does the tombstone that is still young."""
    topic = run.topic("compacted")
    create(client, topic, configs=TOPIC_CONFIGS)
    for index, (key, value) in enumerate(RECORDS):
        # By its timestamp, or by the clock where a client sets none, each record begins a new segment.
        record = Record(value, key, timestamp_ms=TIME_MS + index * 10 * SEGMENT_MS)
        client.produce(topic, [record], codec="none", acks="all")
        time.sleep(2 * SEGMENT_MS / 1000)
    wait_until(lambda: _offsets(client, topic) == SURVIVING_OFFSETS, "the log is cleaned")
    return [timeless(record) for record in client.consume(topic, len(SURVIVING_OFFSETS))]


def _offsets(client: Client, topic: str) -> list[int]:
    try:
        found = client.consume(topic, len(SURVIVING_OFFSETS))
    except ClientError:
        # A cleaned log may end before that.
        return []
    return [int(str(record["offset"])) for record in found if isinstance(record, dict)]
