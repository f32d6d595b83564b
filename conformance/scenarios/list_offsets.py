from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from conformance.client import Record
from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from conformance.client import Client, Json

# The times go back and forth: the latest is not at the end, and one of them occurs twice.
TIMES_MS = (1_000, 5_000, 3_000, 9_000, 9_000, 4_000)
SPECS = ("earliest", "latest", "max-timestamp", "earliest-local", "latest-tiered", "earliest-pending-upload")
LOOKUPS_MS = (0, 1_000, 1_001, 4_000, 5_001, 9_000, 9_001)
FAST_LOOKUPS_MS = (1_001, 9_001)


def list_offsets(client: Client, run: Run) -> Json:
    """Offsets by special name and by time, on an empty log, on a written one, and where there is none."""
    empty, written = run.topic("empty"), run.topic("written")
    for topic in (empty, written):
        create(client, topic, configs={"retention.ms": "-1"})
    client.produce(written, [Record(b"v", timestamp_ms=time) for time in TIMES_MS], codec="none", acks="all")

    lookups = FAST_LOOKUPS_MS if run.fast else LOOKUPS_MS
    specs = [*SPECS, *(str(time) for time in lookups)]
    return {
        label: {spec: attempt(partial(client.list_offset, topic, 0, spec)) for spec in specs}
        for label, topic in (("empty", empty), ("written", written))
    } | {"no such partition": attempt(lambda: client.list_offset(written, 7, "latest"))}
