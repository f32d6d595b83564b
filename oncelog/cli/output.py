"""Numbers and JSON for people and scripts."""

from __future__ import annotations

import json
import sys
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def print_json(value: Any) -> None:
    """Indented for a person at a terminal, one line for a program."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(value, ensure_ascii=False, indent=indent))


def size_text(size_bytes: int | None) -> str:
    if size_bytes is None:
        return "?"
    size = float(size_bytes)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def count_text(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
