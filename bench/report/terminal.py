"""Progress bars while a run goes on, and a table for every case that is done."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.report.cells import cell
from bench.report.metrics import metric
from bench.results import CaseResult


class Terminal:
    """A bar for the cases and one for the turns of the case at hand; a context manager."""

    def __init__(self, cases: int, console: Console | None = None) -> None:
        self._console = console or Console(width=None if Console().is_terminal else 140)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._all = self._progress.add_task("cases", total=cases)
        self._one = self._progress.add_task("", total=1)

    def __enter__(self) -> Terminal:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def case_begins(self, case: CaseResult, turns: int) -> None:
        self._progress.reset(self._one, total=turns, description=f"{case.work}: {case.name}")

    def turn_ends(self, peer: str) -> None:
        self._progress.advance(self._one)

    def case_ends(self, case: CaseResult) -> None:
        self._progress.advance(self._all)
        self._console.print(table(case))


def table(case: CaseResult) -> Table:
    """Medians; behind each the ratio to Apache Kafka, if it took part."""
    names = case.metrics()
    shown = Table(title=f"{case.work}: {case.name}", title_justify="left", caption=case.skipped, expand=False)
    shown.add_column("peer")
    for name in names:
        shown.add_column(metric(name).label, justify="right")
    for peer, run in case.runs.items():
        shown.add_row(peer, *(cell(case, peer, name, absent="-") for name in names))
        if run.error is not None:
            shown.add_row("", run.error)
    return shown
