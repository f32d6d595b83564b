"""Names of the files in a partition's directory, as Apache Kafka spells them.

A segment whose first offset is 42 has `00000000000000000042.log` beside `.index`, `.timeindex` and, if a
transaction was aborted in it, `.txnindex`. A producer snapshot at offset 42 is
`00000000000000000042.snapshot`. Suffixes behind those mark a file that is on its way in or out: `.cleaned`
(being written by the cleaner), `.swap` (complete, about to replace), `.deleted` (about to be removed).
"""

from __future__ import annotations

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"

DELETE_DIRECTORY = "-delete"
STRAY_DIRECTORY = "-stray"

SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
"""The files of one segment, its records first."""

_DIGITS = 20


def offset_file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of_file(name: str) -> int | None:
    """The offset in a file's name, or None if the name does not begin with one."""
    stem = name[:_DIGITS]
    if len(stem) == _DIGITS and stem.isdecimal() and stem.isascii() and name[_DIGITS : _DIGITS + 1] == ".":
        return int(stem)
    return None


def offsets_with_suffix(names: dict[str, int] | list[str], suffix: str) -> list[int]:
    """Sorted offsets of the files that are named `<offset><suffix>`."""
    size = _DIGITS + len(suffix)
    offsets = [offset_of_file(name) for name in names if len(name) == size and name.endswith(suffix)]
    return sorted(offset for offset in offsets if offset is not None)
