"""The table of `DIFFERENCES.md`: which differences are meant, and why."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

DIFFERENCES = Path(__file__).parents[1] / "DIFFERENCES.md"
_COLUMNS = 8
_CELL_END = re.compile(r"(?<!\\)\|")


class Found(NamedTuple):
    """A difference that a run found: `case` is the request (or the client and scenario), `field` the place."""

    api: str
    version: int
    case: str
    field: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.api} v{self.version} | {self.case} | {self.field} | {self.expected} | {self.actual}"


class Listed(NamedTuple):
    """A line of the table. All but the versions are patterns as of a shell."""

    id: str
    api: str
    versions: str
    case: str
    field: str
    expected: str
    actual: str
    reason: str

    def covers(self, found: Found) -> bool:
        first, _, last = self.versions.partition("-")
        return (
            fnmatchcase(found.api, self.api)
            and (self.versions == "*" or int(first) <= found.version <= int(last or first))
            and fnmatchcase(found.case, self.case)
            and fnmatchcase(found.field, self.field)
            and fnmatchcase(found.expected, self.expected)
            and fnmatchcase(found.actual, self.actual)
        )


def read_listed(path: Path = DIFFERENCES) -> list[Listed]:
    listed = list(_rows(path.read_text()))
    ids = [entry.id for entry in listed]
    assert len(ids) == len(set(ids)), "an id stands twice in the table of differences"
    return listed


def _rows(text: str) -> Iterator[Listed]:
    for line in text.splitlines():
        if not line.startswith("| ") or line.startswith(("| id ", "| --")):
            continue
        cells = [cell.strip().strip("`").replace("\\|", "|") for cell in _CELL_END.split(line.strip())[1:-1]]
        assert len(cells) == _COLUMNS, f"a line of the table has {len(cells)} cells: {line}"
        yield Listed(*cells)


class Verdict(NamedTuple):
    unlisted: list[Found]
    stale: list[Listed]
    counts: dict[str, int]
    """How often each listed difference was found."""


def judge(found: list[Found], listed: list[Listed]) -> Verdict:
    """What is not listed, and what is listed but was not found."""
    counts = {entry.id: 0 for entry in listed}
    unlisted = []
    for difference in found:
        entry = next((entry for entry in listed if entry.covers(difference)), None)
        if entry is None:
            unlisted.append(difference)
        else:
            counts[entry.id] += 1
    return Verdict(unlisted, [entry for entry in listed if not counts[entry.id]], counts)
