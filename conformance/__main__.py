"""`python -m conformance run` shows what clients see on a broker; `compare`, what differs between two."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

from conformance.brokers import APACHE, ONCELOG, open_broker
from conformance.clients import CLIENTS, open_client
from conformance.observations import differences
from conformance.scenarios import SCENARIOS
from conformance.scenarios.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.client import Json


def observe(client_name: str, scenario_name: str, bootstrap_servers: str, *, fast: bool = False) -> Json:
    """Runs one scenario with one client and returns what it saw, without names that change with each run."""
    run = Run(uuid.uuid4().hex[:8], fast)
    with closing(open_client(client_name, bootstrap_servers)) as client:
        return run.without_id(SCENARIOS[scenario_name](client, run))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.command == "run":
        with open_broker(options.broker) as address:
            seen = {
                f"{client}, {scenario}": observe(client, scenario, address, fast=options.fast)
                for client, scenario in _cells(options)
            }
        json.dump(seen, sys.stdout, indent=1)
        print()
        return 0
    return _compare(options)


def _compare(options: argparse.Namespace) -> int:
    count = 0
    with open_broker(options.expected) as expected, open_broker(options.broker) as actual:
        for client, scenario in _cells(options):
            found = list(
                differences(
                    observe(client, scenario, expected, fast=options.fast),
                    observe(client, scenario, actual, fast=options.fast),
                )
            )
            print(f"{client}, {scenario}: {f'{len(found)} differences' if found else 'alike'}", flush=True)
            for difference in found:
                print(f"  {difference}")
            count += len(found)
    return 1 if count else 0


def _cells(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for client in options.client or CLIENTS:
        for scenario in options.scenario or SCENARIOS:
            yield client, scenario


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    where = f"{APACHE}, {ONCELOG} (each started for the run) or HOST:PORT"
    run = commands.add_parser("run", help="print what clients see on one broker, as JSON")
    compare = commands.add_parser("compare", help="print what clients see differently on two brokers")
    compare.add_argument("--expected", default=APACHE, metavar="BROKER", help=f"the reference: {where}")
    for command in (run, compare):
        command.add_argument("--broker", default=ONCELOG, help=where)
        command.add_argument("--client", action="append", choices=CLIENTS, help="may be repeated; all unless given")
        command.add_argument("--scenario", action="append", choices=SCENARIOS, help="likewise")
        command.add_argument("--fast", action="store_true", help="the subset that `make test` runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
