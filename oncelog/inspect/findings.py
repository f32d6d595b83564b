"""What a check of files has to say."""

from __future__ import annotations

from enum import StrEnum

from oncelog.named_tuple import NamedTuple


class Severity(StrEnum):
    ERROR = "error"
    """The files are not as they must be."""
    NOTE = "note"
    """Worth knowing, and nothing is wrong: what a crash leaves for recovery, a transaction that is open."""


class Finding(NamedTuple):
    severity: Severity
    kind: str
    """A short name for scripts."""
    path: str
    position: int | None
    offset: int | None
    message: str

    def line(self) -> str:
        place = self.path if self.position is None else f"{self.path}:{self.position}"
        offset = "" if self.offset is None else f" offset {self.offset}"
        return f"{place}{offset}: {self.severity}: {self.message} [{self.kind}]"


def error(kind: str, path: str, message: str, *, position: int | None = None, offset: int | None = None) -> Finding:
    return Finding(Severity.ERROR, kind, path, position, offset, message)


def note(kind: str, path: str, message: str, *, position: int | None = None, offset: int | None = None) -> Finding:
    return Finding(Severity.NOTE, kind, path, position, offset, message)
