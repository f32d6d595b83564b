"""The card: client by scenario, and API by version, on Oncelog against Apache Kafka."""

from __future__ import annotations

import json
import time
import traceback
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from conformance.brokers import APACHE, ONCELOG, open_broker
from conformance.client import UnsupportedError
from conformance.clients import CLIENTS, missing_for, open_client, version_of
from conformance.observations import differences
from conformance.scenarios import SCENARIOS
from conformance.scenarios.run import Run
from conformance.wire.compare import advertised, run_cases, wire_cases
from conformance.wire.listed import Found, Listed, Verdict, judge, read_listed
from conformance.wire.state import REFERENCE_SETTINGS
from conformance.wire.state import SETTINGS as WIRE_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conformance.brokers import Running
    from conformance.client import Json
    from conformance.wire.compare import Report

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "0",
}
"""For both brokers: expired transactions and expired records are looked for more often than once in minutes."""


ANY_CLIENT = "client"
"""Stands in the table of differences for all clients."""


class CellResult(NamedTuple):
    client: str
    scenario: str
    observations: int
    found: list[Found]
    skipped: str | None = None
    seconds: float = 0.0


def observe(client_name: str, scenario_name: str, broker: Running, *, fast: bool = False) -> Json:
    """Runs one scenario with one client and returns what it saw, without names that change with each run."""
    run = Run(uuid.uuid4().hex[:8], fast, broker.crash)
    with closing(open_client(client_name, broker.address)) as client:
        return run.without_id(SCENARIOS[scenario_name](client, run))


def compare_cell(client: str, scenario: str, expected: Running, actual: Running, *, fast: bool = False) -> CellResult:
    started = time.monotonic()
    if (reason := missing_for(client)) is not None:
        return CellResult(client, scenario, 0, [], reason)
    try:
        reference = observe(client, scenario, expected, fast=fast)
    except UnsupportedError as error:
        return CellResult(client, scenario, 0, [], str(error))
    except Exception:
        broken = Found(client, 0, scenario, "/", traceback.format_exc(), "not run: it broke off on the reference")
        return CellResult(client, scenario, 0, [broken])
    try:
        ours = observe(client, scenario, actual, fast=fast)
    except Exception:
        # What breaks off on us alone is the largest of differences.
        ours = traceback.format_exc()
    found = [
        Found(client, 0, scenario, place.path or "/", json.dumps(place.expected), json.dumps(place.actual))
        for place in differences(reference, ours)
    ]
    seen = count_leaves(reference)
    # A client that could do nothing of the scenario saw nothing, and a number would look like a success.
    skipped = "the client has none of the calls" if not seen and not found else None
    return CellResult(client, scenario, seen, found, skipped, time.monotonic() - started)


def count_leaves(value: Json) -> int:
    """Values that the client saw; what it has no call for is none."""
    if isinstance(value, dict) and value.keys() == {"unsupported"}:
        return 0
    if isinstance(value, dict):
        return sum(count_leaves(item) for item in value.values())
    if isinstance(value, list):
        return sum(count_leaves(item) for item in value)
    return 1


def compare_clients(
    clients: Sequence[str], scenarios: Sequence[str], *, fast: bool, tell: Callable[[str], None]
) -> list[CellResult]:
    results = []
    with open_broker(APACHE, SETTINGS) as expected, open_broker(ONCELOG, SETTINGS) as actual:
        for client in clients:
            for scenario in scenarios:
                cell = compare_cell(client, scenario, expected, actual, fast=fast)
                state = f"skipped: {cell.skipped}" if cell.skipped else f"{len(cell.found)} differences"
                tell(f"{client}, {scenario}: {state} ({cell.seconds:.0f} s)")
                results.append(cell)
    return results


def compare_wire(pattern: str, tell: Callable[[str], None]) -> Report:
    with (
        open_broker(APACHE, WIRE_SETTINGS | REFERENCE_SETTINGS) as expected,
        open_broker(ONCELOG, WIRE_SETTINGS) as actual,
    ):
        return run_cases(wire_cases(pattern), expected.address, actual.address, tell)


def judge_clients(cells: list[CellResult]) -> Verdict:
    listed = [
        entry._replace(api="*") if entry.api == ANY_CLIENT else entry
        for entry in read_listed()
        if _is_of_clients(entry)
    ]
    return judge([found for cell in cells for found in cell.found], listed)


def judge_wire(report: Report) -> Verdict:
    return judge(report.found, [entry for entry in read_listed() if not _is_of_clients(entry)])


def _is_of_clients(entry: Listed) -> bool:
    return entry.api in CLIENTS or entry.api == ANY_CLIENT


def render(cells: list[CellResult], clients: Verdict, report: Report, wire: Verdict, *, fast: bool = False) -> str:
    thinned = ["", "Thinned out by `--fast`: only acks=all, and no record above 10 kB."] if fast else []
    return "\n".join([*_clients_part(cells, clients), *thinned, "", *_wire_part(report, wire), ""])


def _clients_part(cells: list[CellResult], verdict: Verdict) -> list[str]:
    names = list(dict.fromkeys(cell.client for cell in cells))
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    by_place = {(cell.client, cell.scenario): cell for cell in cells}
    unlisted = set(verdict.unlisted)
    lines = [
        "# Conformance card",
        "",
        "Written by `make conformance`. A number is how many values a client saw alike on Apache Kafka and on Oncelog;",
        "`+n` are differences that [DIFFERENCES.md](DIFFERENCES.md) lists with their reason, **red** are others.",
        "",
        f"| client | version | {' | '.join(scenarios)} |",
        f"|---|---|{'---|' * len(scenarios)}",
    ]
    for name in names:
        row = [_shown(by_place[name, scenario], unlisted) for scenario in scenarios]
        lines.append(f"| {name} | {version_of(name)} | {' | '.join(row)} |")
    skipped = [f"- {cell.client}, {cell.scenario}: {cell.skipped}" for cell in cells if cell.skipped]
    if skipped:
        lines += ["", "Skipped:", "", *skipped]
    return lines


def _shown(cell: CellResult, unlisted: set[Found]) -> str:
    if cell.skipped is not None:
        return "skipped"
    red = sum(found in unlisted for found in cell.found)
    if red:
        return f"**{red} red**"
    alike = cell.observations - len(cell.found)
    return f"{alike} +{len(cell.found)}" if cell.found else str(alike)


def _wire_part(report: Report, verdict: Verdict) -> list[str]:
    cells = advertised()
    covered = cells & report.cells.keys()
    red: dict[str, int] = {}
    for found in verdict.unlisted:
        red[found.api] = red.get(found.api, 0) + 1
    listed: dict[str, int] = {}
    for found in report.found:
        listed[found.api] = listed.get(found.api, 0) + 1
    lines = [
        "## Wire level",
        "",
        f"{report.steps} requests, sent alike to both brokers, in {len(covered)} of {len(cells)} versions of the",
        f"{len({key for key, _ in cells})} APIs that Oncelog advertises.",
        "",
        "| API | versions | requests | differences listed | red |",
        "|---|---|---|---|---|",
    ]
    for key in sorted({key for key, _ in cells}):
        versions = sorted(version for api, version in covered if api == key)
        requests = sum(count for (api, _), count in report.cells.items() if api == key)
        bad = red.get(key.camel, 0)
        told = listed.get(key.camel, 0) - bad
        span = f"{versions[0]}-{versions[-1]}" if versions else "none"
        lines.append(f"| {key.camel} | {span} | {requests} | {told} | {bad or ''} |")
    return lines
