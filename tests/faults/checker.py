"""Finds in a history what must never happen, in the manner of Jepsen's checker for Kafka. Pure: it reads no clock.

The order of a key's records is that of their offsets, as polls and acknowledgements have shown them; gaps are markers
and aborted records, so that what counts is the rank among those that are known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.faults.graph import components
from tests.faults.history import Key, Operation, Value


class Anomaly(NamedTuple):
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


class Facts:
    """What can be known of the whole: who wrote what, what was read, and the order of each key's records."""

    def __init__(self, history: list[Operation]) -> None:
        self.history = history
        self.writer = {(key, value): op for op in history for key, _, value in op.sends}
        self.read: dict[Key, set[Value]] = defaultdict(set)
        self.log: dict[Key, dict[int, set[Value]]] = defaultdict(lambda: defaultdict(set))
        for op in history:
            for key, offset, value, _ in op.polls:
                self.read[key].add(value)
                self.log[key][offset].add(value)
        for op in history:
            if self.happened(op):
                for key, acknowledged, value in op.sends:
                    if acknowledged is not None:
                        self.log[key][acknowledged].add(value)
        self.offsets: dict[Key, dict[Value, list[int]]] = {key: _offsets(log) for key, log in self.log.items()}
        self.rank: dict[Key, dict[int, int]] = {
            key: {offset: rank for rank, offset in enumerate(sorted(log))} for key, log in self.log.items()
        }

    def happened(self, op: Operation) -> bool:
        """It must have: it says so, or a part of it was read."""
        return op.outcome == "ok" or (
            op.outcome == "info" and any(value in self.read[key] for key, _, value in op.sends)
        )

    def rank_of(self, key: Key, value: Value) -> int | None:
        """Of its first copy; None if nobody knows its offset."""
        offsets = self.offsets.get(key, {}).get(value)
        return self.rank[key][offsets[0]] if offsets else None


def _offsets(log: dict[int, set[Value]]) -> dict[Value, list[int]]:
    offsets: dict[Value, list[int]] = defaultdict(list)
    for offset in sorted(log):
        for value in log[offset]:
            offsets[value].append(offset)
    return dict(offsets)


def check(history: list[Operation]) -> list[Anomaly]:
    """Everything that is wrong with it."""
    facts = Facts(history)
    return [anomaly for find in CHECKS for anomaly in find(facts)]


def find_broken_records(facts: Facts) -> Iterator[Anomaly]:
    for op in facts.history:
        for key, offset, value, problem in op.polls:
            where = f"{value} at {offset} of {key}, polled by {op}"
            if problem is not None:
                yield Anomaly(problem, where)
            elif (key, value) not in facts.writer:
                yield Anomaly("phantom", where)
            elif facts.writer[key, value].outcome == "fail":
                yield Anomaly("G1a", f"{where}, was aborted by {facts.writer[key, value]}")
            elif facts.writer[key, value] is op:
                yield Anomaly("precommitted-read", where)


def find_inconsistent_offsets(facts: Facts) -> Iterator[Anomaly]:
    for key, log in facts.log.items():
        for offset, values in log.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", f"{sorted(values)} at {offset} of {key}")


def find_duplicates(facts: Facts) -> Iterator[Anomaly]:
    for key, offsets in facts.offsets.items():
        for value, places in offsets.items():
            if len(places) > 1:
                yield Anomaly("duplicate", f"{value} at {places} of {key}")


def find_lost_writes(facts: Facts) -> Iterator[Anomaly]:
    """Records that readers have passed, and, when all was read in the end, those that nobody has seen."""
    bounds = {
        key: max(facts.rank[key][facts.offsets[key][value][0]] for value in values)
        for key, values in facts.read.items()
        if values
    }
    is_final = any(op.what == "final" and op.outcome == "ok" for op in facts.history)
    for op in facts.history:
        if not facts.happened(op):
            continue
        missing = [(key, value) for key, _, value in op.sends if value not in facts.read[key]]
        lost = [(key, value) for key, value in missing if _is_passed(facts, bounds, key, value)]
        for key, value in lost:
            yield Anomaly("lost-write", f"{value} of {key}, by {op}")
        if is_final:
            for key, value in missing:
                yield Anomaly("unseen", f"{value} of {key}, by {op}")
        gone = missing if is_final else lost
        if op.what == "txn" and gone and len(missing) < len(op.sends):
            yield Anomaly("torn-txn", f"{op}: {gone} are missing, the others are there")


def _is_passed(facts: Facts, bounds: dict[Key, int], key: Key, value: Value) -> bool:
    offsets = facts.offsets.get(key, {}).get(value)
    return offsets is not None and facts.rank[key][offsets[-1]] <= bounds.get(key, -1)


def find_disorder_within(facts: Facts) -> Iterator[Anomaly]:
    """What one operation polls of a key is consecutive, and what it sends is in order."""
    for op in facts.history:
        last: dict[Key, int] = {}
        for key, offset, value, _ in op.polls:
            rank = facts.rank[key][offset]
            if key in last and key not in op.rebalanced:
                yield from _step("int-poll-skip", "int-nonmonotonic-poll", last[key], rank, f"{value} of {key}, {op}")
            last[key] = rank
        yield from _sends_in_order(facts, op)


def find_disorder_between(facts: Facts) -> Iterator[Anomaly]:
    """The next operation of a process polls where the last has ended, as long as it has the key assigned."""
    polled: dict[int, dict[Key, int]] = defaultdict(dict)
    sent: dict[int, dict[Key, int]] = defaultdict(dict)
    assigned: set[int] = set()
    for op in facts.history:
        if op.what == "assign" and op.outcome == "ok":
            assigned.add(op.process)
            keys = {str(key) for key in op.value}
            polled[op.process] = {key: rank for key, rank in polled[op.process].items() if key in keys}
        if op.outcome != "ok" or op.what == "final":
            continue
        first: set[Key] = set()
        for key, offset, value, _ in op.polls:
            rank = facts.rank[key][offset]
            before = polled[op.process].get(key)
            if key not in first and before is not None and op.process in assigned:
                yield from _step("poll-skip", "nonmonotonic-poll", before, rank, f"{value} of {key}, {op}")
            first.add(key)
            polled[op.process][key] = rank
        yield from _first_sends_in_order(facts, op, sent[op.process])


def _step(skip: str, backwards: str, before: int, rank: int, where: str) -> Iterator[Anomaly]:
    if rank <= before:
        yield Anomaly(backwards, f"{where}: rank {rank} after {before}")
    elif rank > before + 1:
        yield Anomaly(skip, f"{where}: rank {rank} after {before}")


def _sends_in_order(facts: Facts, op: Operation) -> Iterator[Anomaly]:
    """Skips are normal: other producers write too."""
    last: dict[Key, int] = {}
    for key, value, rank in _ranked_sends(facts, op):
        if rank <= last.get(key, -1):
            yield Anomaly("int-nonmonotonic-send", f"{value} of {key}, {op}: rank {rank} after {last[key]}")
        last[key] = rank


def _first_sends_in_order(facts: Facts, op: Operation, last: dict[Key, int]) -> Iterator[Anomaly]:
    sent: dict[Key, int] = {}
    for key, value, rank in _ranked_sends(facts, op):
        if key not in sent and rank <= last.get(key, -1):
            yield Anomaly("nonmonotonic-send", f"{value} of {key}, {op}: rank {rank} after {last[key]}")
        sent[key] = rank
    last.update(sent)


def _ranked_sends(facts: Facts, op: Operation) -> Iterator[tuple[Key, Value, int]]:
    if facts.happened(op):
        for key, _, value in op.sends:
            rank = facts.rank_of(key, value)
            if rank is not None:
                yield key, value, rank


def find_cycles(facts: Facts) -> Iterator[Anomaly]:
    """Nobody reads what was written, directly or not, by those who have read from it, nor what comes later."""
    reads = _read_edges(facts)
    cyclic = False
    for component in components(reads):
        cyclic = True
        yield Anomaly("G1c", " → ".join(str(op) for op in component))
    if cyclic:
        return
    for moments in components(_with_real_time(facts, reads)):
        yield Anomaly("G1c-realtime", " → ".join(str(node) for node in moments if isinstance(node, Operation)))


def _read_edges(facts: Facts) -> dict[Operation, list[Operation]]:
    """From the writer of a record to everybody who reads it."""
    edges: dict[Operation, list[Operation]] = {op: [] for op in facts.history}
    for op in facts.history:
        writers = {facts.writer.get((key, value)) for key, _, value, _ in op.polls}
        for writer in writers:
            if writer is not None and writer is not op and writer.outcome != "fail":
                edges[writer].append(op)
    return edges


def _with_real_time(
    facts: Facts, reads: dict[Operation, list[Operation]]
) -> dict[Operation | int, list[Operation | int]]:
    """A chain of the moments at which something was completed: an operation leads to its moment, each moment to the
    next, and the last moment before an invocation to the operation."""
    edges: dict[Operation | int, list[Operation | int]] = {op: [*readers] for op, readers in reads.items()}
    moments = sorted(op.completed for op in facts.history if op.outcome == "ok" and op.completed is not None)
    for moment in moments:
        edges[moment] = []
    for before, after in pairwise(moments):
        edges[before].append(after)
    passed = 0
    for op in facts.history:
        if op.outcome == "ok" and op.completed is not None:
            edges[op].append(op.completed)
        while passed < len(moments) and moments[passed] < op.invoked:
            passed += 1
        if passed:
            edges[moments[passed - 1]].append(op)
    return edges


def find_regress(facts: Facts) -> Iterator[Anomaly]:
    """Committed offsets and the ends of logs never go down. One that was asked for before another has answered may be
    older, so that only answers that follow each other are compared."""
    highest: dict[tuple[str, Key], list[tuple[int, int]]] = defaultdict(list)
    for op in facts.history:
        if op.outcome != "ok" or op.completed is None:
            continue
        for name, key, offset in _observed_offsets(op):
            known = highest[name, key]
            floor = max((seen for completed, seen in known if completed < op.invoked), default=-1)
            if offset < floor:
                yield Anomaly("offset-regress", f"{name} of {key} is {offset} after {floor}, {op}")
            known.append((op.completed, offset))


def _observed_offsets(op: Operation) -> Iterator[tuple[str, Key, int]]:
    if op.what == "committed":
        for key, offset in op.value["offsets"].items():
            yield f"group {op.value['group']}", key, offset
    elif op.what == "ends":
        for key, (stable, high) in op.value.items():
            yield "last stable offset", key, stable
            yield "high watermark", key, high


def find_open_ends(facts: Facts) -> Iterator[Anomaly]:
    for op in facts.history:
        if op.what == "ends" and op.outcome == "ok" and op.final:
            for key, (stable, high) in op.value.items():
                if stable < high:
                    yield Anomaly("hung-txn", f"{key} is stable up to {stable} of {high}, {op}")


def find_wrong_copies(facts: Facts) -> Iterator[Anomaly]:
    for op in facts.history:
        if op.what != "copied" or op.outcome != "ok":
            continue
        copies = Counter(op.value["target"])
        for value in op.value["source"]:
            if copies[value] == 0:
                yield Anomaly("EOS-lost", f"{value}, {op}")
        for value, count in copies.items():
            if count > 1:
                yield Anomaly("EOS-dup", f"{value} was copied {count} times, {op}")
        for value in copies.keys() - set(op.value["source"]):
            yield Anomaly("phantom", f"{value} was copied from nowhere, {op}")


def find_zombies(facts: Facts) -> Iterator[Anomaly]:
    """Nothing that a producer begins after a later one with its id was initialized may take effect."""
    inits: dict[str | None, list[Operation]] = defaultdict(list)
    for op in facts.history:
        if op.what == "init" and op.outcome == "ok":
            inits[op.transactional_id].append(op)
    for op in facts.history:
        if op.what != "txn" or not op.sends or not facts.happened(op):
            continue
        own = next((init for init in inits[op.transactional_id] if init.epoch == op.epoch), None)
        if own is None or own.completed is None:
            continue
        later = (init for init in inits[op.transactional_id] if init.invoked > own.completed)
        if any(init.completed is not None and init.completed < op.invoked for init in later):
            yield Anomaly("zombie-write", f"{op} of {op.transactional_id}, initialized by {own}, was fenced before")


CHECKS = (
    find_broken_records,
    find_inconsistent_offsets,
    find_duplicates,
    find_lost_writes,
    find_disorder_within,
    find_disorder_between,
    find_cycles,
    find_regress,
    find_open_ends,
    find_wrong_copies,
    find_zombies,
)
