"""Tables, numbers and JSON for people and scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_PLAIN_WIDTH = 10_000


def print_json(value: Any) -> None:
    """Indented for a person at a terminal, one line for a program."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(value, ensure_ascii=False, indent=indent))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, indent: int = 0) -> None:
    """A table whose columns are aligned to the right if their name begins with `>`.

    Into a pipe it is as wide as its content, so that nothing is cut off.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    Console(width=width, highlight=False, markup=False).print(Padding(table, (0, 0, 0, indent), expand=False))


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
