"""The history of a run: what clients asked for and what they saw, one JSON object on a line.

An operation has a line when it is invoked and one when it completes, with the same process:

    {"i": line, "t": ns, "p": process, "type": "invoke" | "ok" | "fail" | "info", "f": what, "v": …, …}

`fail` means that it certainly did not happen, `info` that nobody knows; without a second line nobody knows either. A
process has one operation open at a time. What `f` and `v` can be:

    txn, send, poll, final   v is a list of ["s", key, offset or null, value] and ["p", {key: [[offset, value], …]}]; a
                             txn happens as a whole or not at all; final reads everything when all is healed. An entry
                             of a poll may have a third part that says what is wrong with the record itself.
    assign                   v is the list of keys that the process reads from now on
    init                     a producer with `txid` fences those before it; `epoch` tells them apart
    committed                v is {"group": name, "offsets": {key: offset}}
    ends                     v is {key: [last stable offset, high watermark]}; with "final", nothing may be open
    copied                   v is {"source": [values], "target": [values]}: what was copied exactly once

Further parts: `reb`, the keys that were rebalanced meanwhile; `txid` and `epoch` of the producer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Key = str
Value = int


@dataclass(eq=False)
class Operation:
    """Compared by identity: it is a node of graphs."""

    index: int
    """Of its invocation."""
    process: int
    what: str
    outcome: str
    invoked: int
    completed: int | None
    """Positions in the history; None if it never completed."""
    value: Any
    rebalanced: frozenset[Key] = frozenset()
    transactional_id: str | None = None
    epoch: int = 0
    final: bool = False
    sends: list[tuple[Key, int | None, Value]] = field(default_factory=list)
    polls: list[tuple[Key, int, Value, str | None]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.what} {self.index} of {self.process} ({self.outcome})"


def read_history(lines: Iterable[str]) -> list[Operation]:
    """In the order of invocation."""
    return sorted(_pair(json.loads(line) for line in lines if line.strip()), key=lambda operation: operation.invoked)


def _pair(events: Iterable[dict[str, Any]]) -> Iterator[Operation]:
    open_events: dict[int, tuple[int, dict[str, Any]]] = {}
    for position, event in enumerate(events):
        process = event["p"]
        if event["type"] == "invoke":
            assert process not in open_events, f"process {process} has an operation open"
            open_events[process] = (position, event)
        else:
            invoked, invocation = open_events.pop(process)
            yield _operation(invoked, invocation, position, event)
    for invoked, invocation in open_events.values():
        yield _operation(invoked, invocation, None, {"type": "info"})


def _operation(
    invoked: int, invocation: dict[str, Any], completed: int | None, completion: dict[str, Any]
) -> Operation:
    event = invocation | completion
    operation = Operation(
        index=invocation["i"],
        process=event["p"],
        what=event["f"],
        outcome=event["type"],
        invoked=invoked,
        completed=completed,
        value=event.get("v"),
        rebalanced=frozenset(event.get("reb", ())),
        transactional_id=event.get("txid"),
        epoch=event.get("epoch", 0),
        final=event.get("final", False),
    )
    if operation.what in ("txn", "send", "poll", "final"):
        for kind, *parts in operation.value or ():
            if kind == "s":
                operation.sends.append((str(parts[0]), parts[1], parts[2]))
            else:
                operation.polls += _polled(parts[0])
    return operation


def _polled(polled: dict[str, list[list[Any]]]) -> Iterator[tuple[Key, int, Value, str | None]]:
    for key, entries in polled.items():
        for offset, value, *problem in entries:
            yield key, offset, value, problem[0] if problem else None
