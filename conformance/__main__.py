"""Compares what clients see on two brokers, and what two brokers answer to the same bytes.

`run` shows what clients see on one broker; `compare`, what differs between two; `wire` sends the same requests to
Apache Kafka and to Oncelog; `card` does all of it and writes CARD.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.brokers import APACHE, ONCELOG, open_broker
from conformance.card import compare_cell, compare_clients, compare_wire, judge_clients, judge_wire, observe, render
from conformance.clients import CLIENTS
from conformance.scenarios import SCENARIOS
from conformance.wire.compare import gaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.wire.compare import Report
    from conformance.wire.listed import Verdict

CARD = Path(__file__).with_name("CARD.md")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    commands = {"run": _run, "compare": _compare, "wire": _wire, "card": _card}
    return commands[options.command](options)


def _run(options: argparse.Namespace) -> int:
    with open_broker(options.broker) as broker:
        seen = {
            f"{client}, {scenario}": observe(client, scenario, broker, fast=options.fast)
            for client, scenario in _cells(options)
        }
    json.dump(seen, sys.stdout, indent=1)
    print()
    return 0


def _compare(options: argparse.Namespace) -> int:
    count = 0
    with open_broker(options.expected) as expected, open_broker(options.broker) as actual:
        for client, scenario in _cells(options):
            cell = compare_cell(client, scenario, expected, actual, fast=options.fast)
            state = f"{len(cell.found)} differences" if cell.found else "alike"
            print(f"{client}, {scenario}: {cell.skipped or state}", flush=True)
            for difference in cell.found:
                print(f"  {difference}")
            count += len(cell.found)
    return 1 if count else 0


def _wire(options: argparse.Namespace) -> int:
    report = compare_wire(options.case, _tell)
    verdict = judge_wire(report)
    print(f"{report.steps} requests, {len(report.found)} differences")
    if options.case != "*":
        # A part of the cases cannot show that a listed difference is gone.
        verdict = verdict._replace(stale=[])
    return _conclude(verdict) or _check_coverage(report, options.case)


def _card(options: argparse.Namespace) -> int:
    report = compare_wire("*", _tell)
    cells = compare_clients(
        options.client or list(CLIENTS), options.scenario or list(SCENARIOS), fast=options.fast, tell=_tell
    )
    wire, clients = judge_wire(report), judge_clients(cells)
    if options.client or options.scenario:
        clients = clients._replace(stale=[])
    else:
        CARD.write_text(render(cells, clients, report, wire, fast=options.fast))
    codes = [_conclude(wire), _conclude(clients), _check_coverage(report, "*")]
    return max(codes)


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


def _cells(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for client in options.client or CLIENTS:
        for scenario in options.scenario or SCENARIOS:
            yield client, scenario


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    where = f"{APACHE}, {ONCELOG} (each started for the run) or HOST:PORT"
    run = commands.add_parser("run", help="print what clients see on one broker, as JSON")
    compare = commands.add_parser("compare", help="print what clients see differently on two brokers")
    card = commands.add_parser("card", help="compare everything, and write CARD.md if nothing was left out")
    wire = commands.add_parser("wire", help="send the same requests to both brokers")
    wire.add_argument("--case", default="*", metavar="PATTERN", help="such as 'Fetch.*' or 'transactions *'")
    compare.add_argument("--expected", default=APACHE, metavar="BROKER", help=f"the reference: {where}")
    for command in (run, compare):
        command.add_argument("--broker", default=ONCELOG, help=where)
    for command in (run, compare, card):
        command.add_argument("--client", action="append", choices=CLIENTS, help="may be repeated; all unless given")
        command.add_argument("--scenario", action="append", choices=SCENARIOS, help="likewise")
        command.add_argument("--fast", action="store_true", help="the subset that `make test` runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
