"""Tables on stdout, drawn by rich."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

_PLAIN_WIDTH = 10_000


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the process; a reader that went away is the caller's to judge."""
        raise BrokenPipeError


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, indent: int = 0) -> None:
    """A table whose columns are aligned to the right if their name begins with `>`.

    Into a pipe it is as wide as its content, so that nothing is cut off.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    console = _Console(width=width, highlight=False, markup=False)
    console.print(Padding(table, (0, 0, 0, indent), expand=False))
