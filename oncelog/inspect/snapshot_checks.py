"""Checks of producer snapshots: each must hold what a replay of the log up to its offset gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oncelog.broker.log import producer_snapshot
from oncelog.broker.log.producer_entry import ProducerEntry
from oncelog.inspect.findings import Finding, error
from oncelog.inspect.producers import ProducerFacts, Producers, facts_of

_EXPIRATION_MS = 86_400_000
"""Kafka's default of producer.id.expiration.ms: who was silent for so long may be forgotten."""


def read_snapshot(path: Path) -> tuple[list[ProducerEntry], Finding | None]:
    try:
        return producer_snapshot.decode(path.read_bytes()), None
    except ValueError as problem:
        return [], error("snapshot-damaged", str(path), f"it cannot be read: {problem}")


def check_snapshot(path: Path, replayed: Producers | None) -> Iterator[Finding]:
    """`replayed` is the state at the snapshot's offset; None if it is not known."""
    entries, problem = read_snapshot(path)
    if problem is not None:
        yield problem
        return
    if replayed is None:
        return
    written_ms = int(path.stat().st_mtime * 1000)
    found = {entry.producer_id: facts_of(entry) for entry in entries}
    for producer_id, facts in found.items():
        expected = replayed.facts.get(producer_id)
        if expected is None:
            if not replayed.begins_late:
                message = f"producer {producer_id} is in it, but not in the log"
                yield error("snapshot-extra", str(path), message, offset=facts.last_offset)
        elif facts != expected:
            message = f"producer {producer_id} is not as in the log: {_difference(facts, expected)}"
            yield error("snapshot-differs", str(path), message, offset=expected.last_offset)
    for producer_id, expected in replayed.facts.items():
        expired = expected.txn_first_offset < 0 and written_ms - expected.timestamp >= _EXPIRATION_MS
        if producer_id not in found and not expired:
            message = f"producer {producer_id} is in the log, but not in it"
            yield error("snapshot-missing", str(path), message, offset=expected.last_offset)


def _difference(found: ProducerFacts, expected: ProducerFacts) -> str:
    return ", ".join(
        f"{name} {value} instead of {wanted}"
        for name, value, wanted in zip(ProducerFacts._fields, found, expected, strict=True)
        if value != wanted
    )
