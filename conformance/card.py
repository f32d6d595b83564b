"""The card: client by scenario, and API by version, on Oncelog against Apache Kafka."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from conformance.applications import APPLICATIONS, compare_application
from conformance.brokers import APACHE, ONCELOG, open_broker
from conformance.card_settings import APACHE_SETTINGS, SETTINGS
from conformance.cells import Table
from conformance.clients import CLIENTS, version_of
from conformance.preparation import warm_up
from conformance.reference.jars import KAFKA_VERSION
from conformance.wire.compare import advertised, run_cases, wire_cases
from conformance.wire.listed import Found, Listed, Verdict, judge, read_listed
from conformance.wire.state import REFERENCE_SETTINGS
from conformance.wire.state import SETTINGS as WIRE_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from conformance.brokers import Running
    from conformance.cells import CellResult
    from conformance.wire.compare import Report

ANY_CLIENT = "client"
"""Stands in the table of differences for all clients."""

FILES = "files"
APPLICATIONS_COMMAND = "python -m conformance card --client streams --client spark"
FILES_COMMAND = "python -m conformance files"


def settings_of(broker: str) -> dict[str, str]:
    return SETTINGS | APACHE_SETTINGS if broker == APACHE else SETTINGS


@contextmanager
def open_both() -> Iterator[tuple[Running, Running]]:
    """Apache Kafka and Oncelog with the settings of the card."""
    with open_broker(APACHE, settings_of(APACHE)) as expected, open_broker(ONCELOG, SETTINGS) as actual:
        for broker in (expected, actual):
            warm_up(broker.address)
        yield expected, actual


def compare_clients(
    clients: Sequence[str], scenarios: Sequence[str], *, fast: bool, tell: Callable[[str], None]
) -> list[CellResult]:
    results = []
    with open_both() as (expected, actual):
        for client in clients:
            with closing(Table(client, expected, actual)) as table:
                for scenario in scenarios:
                    results.append(table.compare(scenario, fast=fast))
                    tell_cell(results[-1], tell)
    return results


def compare_wire(pattern: str, tell: Callable[[str], None]) -> Report:
    with (
        open_broker(APACHE, WIRE_SETTINGS | REFERENCE_SETTINGS) as expected,
        open_broker(ONCELOG, WIRE_SETTINGS) as actual,
    ):
        return run_cases(wire_cases(pattern), expected.address, actual.address, tell)


def compare_applications(names: Sequence[str], tell: Callable[[str], None]) -> list[CellResult]:
    results = []
    with open_both() as (expected, actual):
        for name in names:
            results.append(compare_application(name, expected, actual))
            tell_cell(results[-1], tell)
    return results


def tell_cell(cell: CellResult, tell: Callable[[str], None]) -> None:
    """As soon as it is known: a whole run takes most of an hour."""
    unlisted = judge_clients([cell]).unlisted
    state = f"skipped: {cell.skipped}" if cell.skipped else f"{len(cell.found) - len(unlisted)} listed differences"
    red = f", {len(unlisted)} RED" if unlisted else ""
    tell(f"{cell.client}, {cell.scenario}: {state}{red} ({cell.seconds:.0f} s)")
    for found in unlisted:
        tell(f"  {found}")


def judge_clients(cells: list[CellResult]) -> Verdict:
    """Of the clients, the applications and the files."""
    listed = [
        entry._replace(api="*") if entry.api == ANY_CLIENT else entry
        for entry in read_listed()
        if _is_of_clients(entry)
    ]
    return judge([found for cell in cells for found in cell.found], listed)


def judge_wire(report: Report) -> Verdict:
    return judge(report.found, [entry for entry in read_listed() if not _is_of_clients(entry)])


def _is_of_clients(entry: Listed) -> bool:
    return entry.api in CLIENTS or entry.api in APPLICATIONS or entry.api in (ANY_CLIENT, FILES)


def render(cells: list[CellResult], clients: Verdict, report: Report, wire: Verdict, *, fast: bool = False) -> str:
    """The whole card. It has no date and no durations, so that two equal runs write equal cards."""
    unlisted = set(clients.unlisted)
    thinned = ["", "Thinned out by `--fast`: only acks=all, and no record above 10 kB."] if fast else []
    parts = [
        _head(cells, clients, report, wire),
        _clients_part([cell for cell in cells if cell.client in CLIENTS], unlisted),
        thinned,
        _single_part("Applications", APPLICATIONS_COMMAND, _of(cells, *APPLICATIONS), unlisted),
        _single_part("File level", FILES_COMMAND, _of(cells, FILES), unlisted),
        _wire_part(report, wire),
        _skipped_part(cells),
    ]
    return "\n".join(line for part in parts if part for line in [*part, ""])


def _of(cells: list[CellResult], *names: str) -> list[CellResult]:
    return [cell for cell in cells if cell.client in names]


def _head(cells: list[CellResult], clients: Verdict, report: Report, wire: Verdict) -> list[str]:
    run = [cell for cell in cells if cell.skipped is None]
    alike = sum(cell.alike for cell in run)
    red = len(clients.unlisted) + len(wire.unlisted)
    return [
        "# Conformance card",
        "",
        f"Written by `make conformance`, against Apache Kafka {KAFKA_VERSION}. {len(run)} cells were run and"
        f" {len(cells) - len(run)} skipped: {alike} values that",
        f"clients, applications and tools saw alike on both brokers; {report.steps} requests on the wire; {red} red.",
        "",
        "A number is how many values were seen alike on Apache Kafka and on Oncelog; `+n` are differences that",
        "[DIFFERENCES.md](DIFFERENCES.md) lists with their reason, **red** are others. Why cells were skipped stands",
        "at the end.",
    ]


def _clients_part(cells: list[CellResult], unlisted: set[Found]) -> list[str]:
    names = list(dict.fromkeys(cell.client for cell in cells))
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    by_place = {(cell.client, cell.scenario): cell for cell in cells}
    lines = [
        "## Clients",
        "",
        "One client: `python -m conformance card --client sarama`.",
        "",
        f"| client | version | {' | '.join(scenarios)} |",
        f"|---|---|{'---|' * len(scenarios)}",
    ]
    for name in names:
        row = [_shown(by_place[name, scenario], unlisted) for scenario in scenarios]
        lines.append(f"| {name} | {version_of(name)} | {' | '.join(row)} |")
    return lines


def _single_part(title: str, command: str, cells: list[CellResult], unlisted: set[Found]) -> list[str]:
    if not cells:
        return []
    lines = [f"## {title}", "", f"`{command}`", "", "| what | outcome |", "|---|---|"]
    for cell in cells:
        application = APPLICATIONS.get(cell.client)
        name = f"{cell.client} {application.version()}, {cell.scenario}" if application else cell.scenario
        lines.append(f"| {name} | {_shown(cell, unlisted)} |")
    return lines


def _skipped_part(cells: list[CellResult]) -> list[str]:
    skipped = [f"- {cell.client}, {cell.scenario}: {cell.skipped}" for cell in cells if cell.skipped]
    return ["## Skipped", "", *skipped] if skipped else []


def _shown(cell: CellResult, unlisted: set[Found]) -> str:
    if cell.skipped is not None:
        return "skipped"
    red = sum(found in unlisted for found in cell.found)
    if red:
        return f"**{red} red**"
    return f"{cell.alike} +{len(cell.found)}" if cell.found else str(cell.alike)


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
        "`python -m conformance wire`",
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
