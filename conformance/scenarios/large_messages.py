from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from conformance.client import Record
from conformance.scenarios.run import Run, attempt, create, timeless

if TYPE_CHECKING:
    from conformance.client import Client, Json

TIME_MS = 1_700_000_000_000
MEGABYTE = 1_000_000
SIZES_BYTES = {
    "below the default": MEGABYTE,
    "at the default": 1_048_588 - 70,
    "above the default": 1_048_588,
    "10 MB": 10 * MEGABYTE,
}
"""By default a batch has 1048588 bytes at most, its header and the record's own few included."""

FETCH_SIZE_BYTES = 1000


def large_messages(client: Client, run: Run) -> Json:
    """The default limit, a raised one, what compression brings below it, and records above a consumer's own limit."""
    default, raised = run.topic("default"), run.topic("raised")
    create(client, default, configs={"retention.ms": "-1"})
    create(client, raised, configs={"retention.ms": "-1", "max.message.bytes": str(12 * MEGABYTE)})
    records = {label: Record(b"x" * size, b"k", timestamp_ms=TIME_MS) for label, size in SIZES_BYTES.items()}
    seen: dict[str, Json] = {
        # One call for each, since some producers give up with the first refusal.
        f"{label}, {codec}": attempt(partial(client.produce, default, [record], codec=codec, acks="all"))
        for codec in ("none", "gzip")
        for label, record in records.items()
    }
    seen["raised"] = attempt(lambda: client.produce(raised, list(records.values()), codec="none", acks="all"))
    for label, size in (("any size", None), ("little at a time", FETCH_SIZE_BYTES)):
        seen[f"fetched, {label}"] = attempt(partial(_fetch, client, raised, len(records), size))
    return seen


def _fetch(client: Client, topic: str, count: int, size: int | None) -> Json:
    return [timeless(record) for record in client.consume(topic, count, fetch_size_bytes=size)]
