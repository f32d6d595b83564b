"""`oncelog pipeline`: Spark jobs from topic to topic, exactly once, and the proof of their runs."""

from __future__ import annotations

from oncelog.cli.streams import EXIT_USAGE


def run(argv: list[str]) -> int:
    from oncelog.pipeline.commands import run_as_program

    try:
        return run_as_program(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
