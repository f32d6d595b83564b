"""Holds the records of an output against those of its input: what exactly-once forbids, record by record."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

Place = tuple[int, int]
"""Partition and offset of a record of the output."""

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "lost": "input records that are missing from the output",
        "duplicated": "copies of records that are visible already",
        "unexpected": "visible records that come from no input record",
        "aborted_visible": "records of aborted transactions that a reader of committed records sees",
        "out_of_order": "records that stand behind a later one of the same input partition",
    }
)
"""The kinds of offences, in the order in which they matter. The last of them does not touch exactly-once."""


class Seen(NamedTuple):
    partition: int
    offset: int
    value: bytes


class Offence(NamedTuple):
    """A record that should not be as it is."""

    kind: str
    source: str
    """The input record, as PARTITION:OFFSET; whatever the output says instead, if it names none."""
    places: tuple[Place, ...] = ()
    """Where the output has it."""


class Verdict(NamedTuple):
    expected: int
    visible: int
    lost: int
    duplicated: int
    unexpected: int
    aborted: int
    aborted_visible: int
    out_of_order: int

    @property
    def exactly_once(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected or self.aborted_visible)

    @property
    def reasons(self) -> list[str]:
        """What is wrong, in sentences."""
        counts = self._asdict()
        return [f"{reason}: {counts[kind]:,}" for kind, reason in REASONS.items() if counts[kind]]


def judge(expected: Sequence[str], committed: Sequence[Seen], ids: Sequence[str], aborted: set[Place]) -> Verdict:
    """Holds the output against the input; `ids` are the input records that the committed ones came from."""
    return count_offences(find_offences(expected, committed, ids, aborted), len(expected), len(committed), len(aborted))


def count_offences(offences: Sequence[Offence], expected: int, visible: int, aborted: int) -> Verdict:
    counts = Counter(offence.kind for offence in offences)
    return Verdict(
        expected=expected,
        visible=visible,
        lost=counts["lost"],
        duplicated=sum(len(each.places) - 1 for each in offences if each.kind == "duplicated"),
        unexpected=counts["unexpected"],
        aborted=aborted,
        aborted_visible=counts["aborted_visible"],
        out_of_order=counts["out_of_order"],
    )


def find_offences(
    expected: Sequence[str], committed: Sequence[Seen], ids: Sequence[str], aborted: set[Place]
) -> list[Offence]:
    wanted = set(expected)
    places: defaultdict[str, list[Place]] = defaultdict(list)
    for seen, source in sorted(zip(committed, ids, strict=True)):
        places[source].append((seen.partition, seen.offset))
    found = [Offence("lost", source) for source in expected if source not in places]
    found += [
        Offence("duplicated", source, tuple(where))
        for source, where in places.items()
        if source in wanted and len(where) > 1
    ]
    found += [
        Offence("unexpected", source, (place,))
        for source, where in places.items()
        if source not in wanted
        for place in where
    ]
    found += [
        Offence("aborted_visible", source, (place,))
        for source, where in places.items()
        for place in where
        if place in aborted
    ]
    return [*found, *_out_of_order(committed, ids)]


def _out_of_order(committed: Sequence[Seen], ids: Sequence[str]) -> Iterator[Offence]:
    """Records that stand behind a later one of the same input partition, within one output partition."""
    newest: dict[tuple[int, str], int] = {}
    for seen, source in sorted(zip(committed, ids, strict=True)):
        partition, _, offset = source.partition(":")
        where = (seen.partition, partition)
        if not offset.isdigit():
            continue
        if int(offset) < newest.get(where, -1):
            yield Offence("out_of_order", source, ((seen.partition, seen.offset),))
        newest[where] = max(newest.get(where, -1), int(offset))
