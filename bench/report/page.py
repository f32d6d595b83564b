"""RESULTS.md from the JSON of a run: which goals hold, how it was measured, then every work with ratios and costs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.goals import CACHE, FLAT_MAX, FSYNC, GOALS, Goal
from bench.peers import DESCRIPTIONS
from bench.report.cells import BASE, cell
from bench.report.metrics import metric, number
from bench.report.plots import draw_all
from bench.results import CaseResult, Results
from bench.stats import Spread, ratio, spread
from bench.works import WORKS

# From these on, a process counts as busy all the time; brokers of one thread cannot have more than one core.
_CLIENT_BUSY_CORES, _BROKER_IDLE_CORES = 0.9, 0.75
_CLIENT_MARK = "ᶜ"
# Less than that leaves a JVM much to compile.
WARM_SECONDS = 5.0
_CURVES = ("partitions", "idle-connections", "biglog")

_HOW = f"""
Every figure is a **ratio to Apache Kafka in the same run**: the peers of a case take turns, round by round, with the
same client on the same machine, after a warm-up, and each round is compared with itself. Between two turns what was
deleted is removed and the disk is synced, so that nobody pays for another's data. A cell has the median over
the rounds and, in brackets, the lowest and the highest; absolute numbers only go along. The broker's CPU time is that
of its whole process, read from outside; RSS is that after the case.

{_CLIENT_MARK} marks a cell where **the client was the bottleneck** (it used {_CLIENT_BUSY_CORES} cores or more, the
broker less than {_BROKER_IDLE_CORES}): the throughput is then the client's, a ratio near 1 says nothing about the
broker, and the CPU per MB or per request is the figure to look at. *Produce and fetch, broker-bound* shows the same
work with a client that costs next to nothing.
"""

_REACH = """\
*Within reach* is what the floor program makes of the same work or, where it cannot serve it, kfake, which keeps all in
memory: if that falls short of a goal too, it is likely the client, not the broker, that stands in its way."""


def write_page(results: Results, json_path: Path) -> Path:
    """Beside the JSON: results.json gives RESULTS.md and the folder plots."""
    stem = json_path.stem
    plots = draw_all(results, json_path.with_name("plots" if stem == "results" else f"{stem}-plots"))
    path = json_path.with_name(f"{stem.upper()}.md")
    text = "\n".join(lines(results, {name: f"{plot.parent.name}/{plot.name}" for name, plot in plots.items()}))
    path.write_text(text + "\n", encoding="utf-8")
    return path


def lines(results: Results, plots: dict[str, str]) -> Iterator[str]:
    yield "# Oncelog beside Apache Kafka, kfake and a floor"
    yield from _at_a_glance(results)
    yield from _goals(results, plots)
    yield from _failures(results)
    yield ""
    yield "## How it was measured"
    yield _HOW
    yield from _machine(results)
    for name, work in WORKS.items():
        cases = [case for case in results.of(name) if case.skipped is None]
        if not cases:
            continue
        yield ""
        yield f"## {work.title}"
        yield ""
        yield _about(name)
        plot = plots.get("growth" if name in _CURVES else name)
        if plot is not None:
            yield ""
            yield f"![{work.title}]({plot})"
        yield from _summary(cases)
        yield from _details(cases)


def _machine(results: Results) -> Iterator[str]:
    facts = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in results.machine.items())
    yield f"Run of {results.started}, {results.minutes:.0f} minutes, with {results.warmup_seconds:g} s of load on each"
    yield f"peer before it is measured: {facts}."
    later = [f"{case.work} ({case.name})" for case in results.cases if case.run != results.started]
    if later:
        yield f"Measured again in a later run, with peers that had done less before: {', '.join(later)}."
    if results.warmup_seconds < WARM_SECONDS:
        yield ""
        yield "**Apache Kafka is still getting faster after so short a warm-up: the ratios flatter Oncelog.**"
    yield ""
    for name, text in DESCRIPTIONS.items():
        yield f"- **{name}**: {text}"


def _at_a_glance(results: Results) -> Iterator[str]:
    """What a reader with half a minute wants to know: how many goals hold, and what is in the way of the others."""
    verdicts = [(goal, goal.judge(results)) for goal in GOALS]
    counts = Counter(verdict.word for _, verdict in verdicts)
    others = [f"{counts[word]} {word}" for word in ("partly met", "not met", "not measured") if counts[word]]
    yield ""
    yield f"**{counts['met']} of {len(GOALS)} goals are met**{''.join(f', {other}' for other in others)}."
    missed = [(goal, verdict) for goal, verdict in verdicts if verdict.word in ("partly met", "not met")]
    if not missed:
        return
    yield ""
    yield "| not met, or not everywhere | goal | measured | within reach |"
    yield "|---|---|---|---|"
    for goal, verdict in missed:
        partly = " (partly)" if verdict.word == "partly met" else ""
        reach = _reach(goal, results) + (", **short of it too**" if goal.is_beyond_reach(results) else "")
        yield f"| {goal.text}, {goal.side} | {goal.wanted} | {_value(verdict.value, goal.unit)}{partly} | {reach} |"


def _goals(results: Results, plots: dict[str, str]) -> Iterator[str]:
    yield ""
    yield "## Goals"
    yield ""
    yield "Each is a ratio to Apache Kafka with its defaults, unless it says otherwise. Where a goal covers several"
    yield "cases, the median of them decides and their range is in brackets; it is *partly met* while some of them miss"
    yield "it. With one case only, the range is that of its rounds. A curve is flat if a request costs at its end at"
    yield f"most {FLAT_MAX}x what it costs in the same rounds a broker in which nothing grows."
    yield ""
    yield f"| work | {CACHE}: goal | measured | | {FSYNC}: goal | measured | | within reach |"
    yield "|---|---|---|---|---|---|---|---|"
    rows: dict[str, dict[str, str]] = {}
    reaches: dict[str, dict[str, None]] = {}
    for goal in GOALS:
        verdict = goal.judge(results)
        word = f"**{verdict.word}**" if verdict.is_met else verdict.word
        rows.setdefault(goal.text, {})[goal.side] = f"{goal.wanted} | {_value(verdict.value, goal.unit)} | {word}"
        reaches.setdefault(goal.text, {})[_reach(goal, results)] = None
    for text, sides in rows.items():
        yield f"| {text} | {sides.get(CACHE, ' | | ')} | {sides.get(FSYNC, ' | | ')} | {', '.join(reaches[text])} |"
    yield ""
    yield _REACH
    if "goals" in plots:
        yield ""
        yield f"![Goals]({plots['goals']})"


def _reach(goal: Goal, results: Results) -> str:
    value = goal.within_reach(results)
    return f"{_value(value)} by {goal.reach.peer}" if goal.reach is not None and value is not None else ""


def _failures(results: Results) -> Iterator[str]:
    """What was not measured, and why."""
    told = [f"- {case.work}, {case.name}: left out, {case.skipped}" for case in results.cases if case.skipped]
    for case in results.cases:
        told += [f"- {case.work}, {case.name}, {peer}: {run.error}" for peer, run in case.runs.items() if run.error]
    if told:
        yield ""
        yield "## What was not measured"
        yield ""
        yield from told


def _about(work: str) -> str:
    """The first lines of the work's module say what is done."""
    text = (sys.modules[type(WORKS[work]).__module__].__doc__ or "").strip()
    return text.replace("\n\n", "\n")


def _summary(cases: Sequence[CaseResult]) -> Iterator[str]:
    """One row for a case: the headline of Kafka, and everybody's ratio to it."""
    headline = cases[0].headline
    cases = [case for case in cases if case.headline == headline]
    peers = [peer for peer in DESCRIPTIONS if any(case.values(peer, headline) for case in cases)]
    if BASE not in peers:
        return
    label = metric(headline).label
    yield ""
    yield f"| {label} | " + " | ".join(peers) + " |"
    yield "|---|" + "---|" * len(peers)
    for case in cases:
        yield f"| {case.name} | " + " | ".join(_ratio_cell(case, peer, headline) for peer in peers) + " |"


def _ratio_cell(case: CaseResult, peer: str, name: str) -> str:
    values = case.values(peer, name)
    if not values:
        return ""
    median = number(spread(values).median, metric(name).digits)
    against = ratio(values, case.values(BASE, name)) if peer != BASE else None
    return (f"{_value(against)}, {median}" if against is not None else median) + _mark(case, peer)


def _mark(case: CaseResult, peer: str) -> str:
    client, broker = case.values(peer, "client_cores"), case.values(peer, "broker_cores")
    if not client or not broker:
        return ""
    busy = spread(client).median >= _CLIENT_BUSY_CORES and spread(broker).median < _BROKER_IDLE_CORES
    return f" {_CLIENT_MARK}" if busy else ""


def _value(value: Spread | None, unit: str = "x") -> str:
    if value is None:
        return ""
    low, high = f"{value.low:.2f}", f"{value.high:.2f}"
    between = f" [{low}, {high}]" if low != high else ""
    return f"{value.median:.2f}{unit if unit == 'x' else ' ' + unit}{between}"


def _details(cases: Sequence[CaseResult]) -> Iterator[str]:
    yield ""
    yield "<details><summary>All figures: medians, and ratios to Kafka</summary>"
    for case in cases:
        names = case.metrics()
        yield ""
        yield f"**{case.name}**"
        yield ""
        yield "| peer | rounds | " + " | ".join(metric(name).label for name in names) + " |"
        yield "|---|---:|" + "---:|" * len(names)
        for peer, run in case.runs.items():
            cells = " | ".join(cell(case, peer, name, absent="") for name in names)
            yield f"| {peer} | {len(run.samples)} | {cells} |"
    yield ""
    yield "</details>"
