"""How a committed batch is recognised: the metadata beside the offsets that its transaction commits.

    {"query": "6653a371-…", "batch": 17, "plan": "9f86d081884c7d65"}

`query` is the id that Spark keeps in the checkpoint, so it outlives restarts and changes with the checkpoint. `plan`
is a digest of what Spark noted in the checkpoint about the batch before it ran: a batch that is repeated has the same,
one that was planned anew under an old number has not. It is missing where it is not known, and in markers of the
first version.
Offsets and rows are committed by one transaction, so the newest batch found here is exactly the newest visible one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from oncelog.named_tuple import NamedTuple


class Marker(NamedTuple):
    query: str
    batch: int
    plan: str = ""

    def encode(self) -> str:
        found: dict[str, str | int] = {"query": self.query, "batch": self.batch}
        if self.plan:
            found["plan"] = self.plan
        return json.dumps(found, separators=(",", ":"))

    def contradicts(self, other: Marker) -> bool:
        """Whether one number stands for two batches."""
        return self[:2] == other[:2] and bool(self.plan and other.plan) and self.plan != other.plan


def decode_marker(metadata: str) -> Marker | None:
    """None for metadata that the sink has not written."""
    try:
        found = json.loads(metadata)
        return Marker(str(found["query"]), int(found["batch"]), str(found.get("plan", "")))
    except (ValueError, KeyError, TypeError):
        return None


def newest_marker(metadata: Iterable[str], query: str) -> Marker | None:
    """The newest batch of this query, or else of the query that was here before."""
    markers = [marker for marker in map(decode_marker, metadata) if marker is not None]
    own = [marker for marker in markers if marker.query == query]
    return max(own or markers, key=lambda marker: marker.batch, default=None)
