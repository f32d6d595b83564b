"""`oncelog verify-log`: the fsck of a broker's files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from oncelog.cli.app import InputError, run_app
from oncelog.cli.help import App
from oncelog.cli.output import count_text, print_json, size_text
from oncelog.cli.streams import EXIT_FAILURE, EXIT_OK
from oncelog.inspect.directories import PartitionDirectory, is_in_use
from oncelog.inspect.findings import Finding, Severity
from oncelog.inspect.verify import Progress, Totals
from oncelog.inspect.verify_data import NothingToVerify, find, log_size_bytes, verify

app = App("")

_PROGRESS_SIZE_BYTES = 64 * 1024 * 1024
"""Below this the work is over before a bar could be read."""


def run(argv: list[str]) -> int:
    return run_app(app, "verify-log", argv or ["--help"])


@app.command()
def verify_log(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR", help="Data directories, or directories of partitions.")],
    compacted: Annotated[
        bool,
        typer.Option(
            "--compacted",
            help="Accept gaps as compaction leaves them, where cleaner-offset-checkpoint does not say so.",
        ),
    ] = False,
    notes: Annotated[
        bool, typer.Option("--notes/--no-notes", help="Also tell what is remarkable and not wrong.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> int:
    """Check checksums, offsets, indexes, sequences, transactions and snapshots of a stopped broker.

    Exit code 0: all is well; 1: there are errors, one line each; 2: wrong usage. Works on directories of
    Apache Kafka as well.
    """
    try:
        work = [(path, find(path, compacted=compacted)) for path in paths]
    except NothingToVerify as error:
        raise InputError(str(error)) from None
    for path in paths:
        if is_in_use(path):
            what = "a broker is using this directory; what it has not flushed may look damaged"
            print(f"oncelog verify-log: {path}: {what}", file=sys.stderr)
    totals = Totals()
    shown: list[Finding] = []
    counts = dict.fromkeys(Severity, 0)
    with _progress(work) as progress:
        for path, partitions in work:
            for finding in verify(path, partitions, totals, progress):
                counts[finding.severity] += 1
                if finding.severity is Severity.ERROR or notes:
                    shown.append(finding)
    if json:
        print_json(_report(shown, totals))
    else:
        for finding in shown:
            print(finding.line())
        print(_summary(counts, totals))
    return EXIT_FAILURE if counts[Severity.ERROR] else EXIT_OK


def _report(findings: list[Finding], totals: Totals) -> dict[str, Any]:
    return {
        "ok": not any(finding.severity is Severity.ERROR for finding in findings),
        "partitions": totals.partitions,
        "segments": totals.segments,
        "batches": totals.batches,
        "records": totals.records,
        "size_bytes": totals.size_bytes,
        "findings": [finding._asdict() for finding in findings],
    }


def _summary(counts: dict[Severity, int], totals: Totals) -> str:
    looked_at = ", ".join(
        (
            count_text(totals.partitions, "partition"),
            count_text(totals.segments, "segment"),
            f"{totals.batches:,} batch{'' if totals.batches == 1 else 'es'}",
            count_text(totals.records, "record"),
            size_text(totals.size_bytes),
        )
    )
    errors, notes = counts[Severity.ERROR], counts[Severity.NOTE]
    verdict = count_text(errors, "error") if errors else "no errors"
    return f"{looked_at}: {verdict}" + (f", {count_text(notes, 'note')}" if notes else "")


@contextmanager
def _progress(work: list[tuple[Path, list[PartitionDirectory]]]) -> Iterator[Progress]:
    """A bar on stderr if a person is there to see it and the work takes a while."""
    size_bytes = sum(log_size_bytes(partitions) for _, partitions in work)
    if not sys.stderr.isatty() or size_bytes < _PROGRESS_SIZE_BYTES:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    with Progress(
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    ) as bar:
        task = bar.add_task("", total=size_bytes)
        yield lambda read_bytes: bar.advance(task, read_bytes)
