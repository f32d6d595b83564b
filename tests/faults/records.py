"""Records that prove themselves, and the file in which a process notes its part of the history."""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path
from typing import Any

KEYS_LIVE = 8
"""So many are written and read at a time."""
TRANSACTION_TIMEOUT_MS = 10_000

Polled = list[tuple[int, int, bytes]]
"""Key, offset and content."""


def encode(key: int, value: int) -> str:
    body = f"{key}:{value}"
    return f"{body}:{zlib.crc32(body.encode())}"


def decode(key: int, offset: int, content: bytes) -> list[Any]:
    """An entry of a poll, with what is wrong with it."""
    body, _, crc = content.rpartition(b":")
    sent_to, _, value = body.partition(b":")
    if not (crc.isdigit() and value.isdigit() and zlib.crc32(body) == int(crc)):
        return [offset, -1, "corrupt-value"]
    return [offset, int(value)] if int(sent_to) == key else [offset, int(value), "misrouted"]


def entries(polled: Polled) -> list[Any]:
    """A poll of a history."""
    found: dict[str, list[Any]] = {}
    for key, offset, content in polled:
        found.setdefault(str(key), []).append(decode(key, offset, content))
    return ["p", found]


class Notes:
    """A line is written at once, so that it is there whatever ends the process. All processes of a machine have the
    same monotonic clock, by which their notes can be merged."""

    def __init__(self, path: Path, process: int) -> None:
        self._file = path.open("a", buffering=1)
        self._process = process
        self._what = ""

    def invoke(self, what: str, value: Any = None, **more: Any) -> None:
        self._what = what
        self._write("invoke", value, more)

    def complete(self, outcome: str, value: Any = None, **more: Any) -> None:
        self._write(outcome, value, more)

    def close(self) -> None:
        self._file.close()

    def _write(self, kind: str, value: Any, more: dict[str, Any]) -> None:
        event = {"t": time.monotonic_ns(), "p": self._process, "type": kind, "f": self._what, "v": value}
        self._file.write(json.dumps(event | more) + "\n")


def merge(directory: Path) -> list[str]:
    """The lines of a history. What a process that was killed has not written to its end does not count."""
    events = []
    for path in directory.glob("*.jsonl"):
        whole = path.read_text().split("\n")[:-1]
        events += [json.loads(line) for line in whole]
    events.sort(key=lambda event: event["t"])
    return [json.dumps({"i": index} | event) for index, event in enumerate(events)]
