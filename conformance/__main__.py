"""Compares what clients see on two brokers, and what two brokers answer to the same bytes.

`run` shows what clients see on one broker; `compare`, what differs between two; `wire` sends the same requests to
Apache Kafka and to Oncelog; `files` looks at their directories; `card` does all of it and writes CARD.md, or does the
part of one client.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.applications import APPLICATIONS
from conformance.brokers import APACHE, ONCELOG, open_broker
from conformance.card import (
    compare_applications,
    compare_clients,
    compare_wire,
    judge_clients,
    judge_wire,
    render,
    settings_of,
    tell_cell,
)
from conformance.cells import Seat, Table
from conformance.client_log import begin_client_log
from conformance.clients import CLIENTS
from conformance.files.checks import run_checks
from conformance.reference.processes import end_children
from conformance.scenarios import SCENARIOS
from conformance.scenarios.run import attempt
from conformance.wire.compare import gaps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from conformance.client import Json
    from conformance.wire.compare import Report
    from conformance.wire.listed import Verdict

CARD = Path(__file__).with_name("CARD.md")
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> int:
    """A command inside of a process whose signals, logs and children are somebody else's, as those of a test are."""
    return _carry_out(_parser().parse_args(arguments))


def _main_of_process() -> int:
    """The same for a process that does nothing else: it has a log, and leaves nothing behind when interrupted."""
    options = _parser().parse_args()
    begin_client_log()
    for number in INTERRUPTS:
        signal.signal(number, _interrupt)
    try:
        return _carry_out(options)
    except KeyboardInterrupt:
        # By then the brokers are stopped, and so are the clients of those threads that came to their end.
        end_children()
        print("interrupted: all that was started is stopped, and no card is written", file=sys.stderr)
        return 130


def _carry_out(options: argparse.Namespace) -> int:
    commands = {"run": _run, "compare": _compare, "wire": _wire, "files": _files, "card": _card}
    return commands[options.command](options)


def _interrupt(_: int, __: FrameType | None) -> None:
    """Once: to stop a broker in order takes seconds, in which an impatient second signal would leave it behind."""
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    print("stopping the brokers and clients …", file=sys.stderr, flush=True)
    raise KeyboardInterrupt


def _run(options: argparse.Namespace) -> int:
    seen: dict[str, Json] = {}
    with open_broker(options.broker, settings_of(options.broker)) as broker:
        for client in options.client or CLIENTS:
            with closing(Seat(client, broker)) as seat:
                for scenario in options.scenario or SCENARIOS:
                    seen[f"{client}, {scenario}"] = attempt(partial(seat.observe, scenario, fast=options.fast))
    json.dump(seen, sys.stdout, indent=1)
    print()
    return 0


def _compare(options: argparse.Namespace) -> int:
    count = 0
    with (
        open_broker(options.expected, settings_of(options.expected)) as expected,
        open_broker(options.broker, settings_of(options.broker)) as actual,
    ):
        for client in options.client or CLIENTS:
            with closing(Table(client, expected, actual)) as table:
                for scenario in options.scenario or SCENARIOS:
                    cell = table.compare(scenario, fast=options.fast)
                    state = f"{len(cell.found)} differences" if cell.found else f"{cell.alike} values alike"
                    print(f"{client}, {scenario}: {cell.skipped or state} ({cell.seconds:.0f} s)", flush=True)
                    for difference in cell.found:
                        print(f"  {difference}")
                    count += len(cell.found)
    return 1 if count else 0


def _wire(options: argparse.Namespace) -> int:
    report = compare_wire(options.case, _tell)
    verdict = judge_wire(report)
    print(f"{report.steps} requests, {len(report.found)} differences")
    if options.case != "*":
        verdict = _without_stale(verdict)
    return _conclude(verdict) or _check_coverage(report, options.case)


def _files(_: argparse.Namespace) -> int:
    return _conclude(_without_stale(judge_clients(run_checks(partial(tell_cell, tell=_tell)))))


def _card(options: argparse.Namespace) -> int:
    """A part of it, or all of it with what is written down."""
    chosen = options.client or [*CLIENTS, *APPLICATIONS]
    scenarios = options.scenario or list(SCENARIOS)
    whole = not options.client and not options.scenario
    cells = compare_clients([name for name in chosen if name in CLIENTS], scenarios, fast=options.fast, tell=_tell)
    if not options.scenario:
        cells += compare_applications([name for name in chosen if name in APPLICATIONS], _tell)
    if not whole:
        return _conclude(_without_stale(judge_clients(cells)))
    cells += run_checks(partial(tell_cell, tell=_tell))
    clients = judge_clients(cells)
    report = compare_wire("*", _tell)
    wire = judge_wire(report)
    CARD.write_text(render(cells, clients, report, wire, fast=options.fast))
    print(f"written: {CARD}")
    return max(_conclude(wire), _conclude(clients), _check_coverage(report, "*"))


def _without_stale(verdict: Verdict) -> Verdict:
    """A part of the cells cannot show that a listed difference is gone."""
    return verdict._replace(stale=[])


def _conclude(verdict: Verdict) -> int:
    for found in verdict.unlisted:
        print(f"not listed: {found}")
    for entry in verdict.stale:
        print(f"listed, but no longer different: {entry.id}")
    return 1 if verdict.unlisted or verdict.stale else 0


def _check_coverage(report: Report, pattern: str) -> int:
    missing = gaps(report.asked) if pattern == "*" else []
    for gap in missing:
        print(f"not asked: {gap}")
    return 1 if missing else 0


def _tell(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    where = f"{APACHE}, {ONCELOG} (each started for the run) or HOST:PORT"
    run = commands.add_parser("run", help="print what clients see on one broker, as JSON")
    compare = commands.add_parser("compare", help="print what clients see differently on two brokers")
    card = commands.add_parser("card", help="compare everything, and write CARD.md if nothing was left out")
    commands.add_parser("files", help="compare directories, and exchange the broker on one")
    wire = commands.add_parser("wire", help="send the same requests to both brokers")
    wire.add_argument("--case", default="*", metavar="PATTERN", help="such as 'Fetch.*' or 'transactions *'")
    compare.add_argument("--expected", default=APACHE, metavar="BROKER", help=f"the reference: {where}")
    for command in (run, compare):
        command.add_argument("--broker", default=ONCELOG, help=where)
    for command in (run, compare, card):
        names = [*CLIENTS, *APPLICATIONS] if command is card else list(CLIENTS)
        command.add_argument("--client", action="append", choices=names, help="may be repeated; all unless given")
        command.add_argument("--scenario", action="append", choices=SCENARIOS, help="likewise")
        command.add_argument("--fast", action="store_true", help="the subset that `make test` runs")
    return parser


if __name__ == "__main__":
    sys.exit(_main_of_process())
