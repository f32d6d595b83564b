"""The plots of the page, as SVG files beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.goals import GOALS, Goal, curve
from bench.report.cells import BASE
from bench.report.metrics import metric
from bench.results import CaseResult, Results
from bench.stats import Spread, ratio, spread

_MARGINS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
COLOURS = {
    "kafka": "#8c959f",
    "kafka-fsync": "#57606a",
    "oncelog": "#1f6feb",
    "oncelog-fsync": "#8250df",
    "oncelog-control": "#9ec5fe",
    "kfake": "#d4a72c",
    "floor": "#c4c9cf",
    "floor-fsync": "#d8b4fe",
}
_VERDICTS = {"met": "#1a7f37", "partly met": "#bf8700", "not met": "#cf222e"}
_BARS = ("produce", "consume", "transactions", "transform", "java", "connections", "requests", "saturate", "groups")
_CURVES = (
    ("partitions", "partitions", "idle partitions"),
    ("idle-connections", "idle_connections", "idle connections"),
    ("biglog", "log_gb", "GB of log"),
)


def draw_all(results: Results, directory: Path) -> dict[str, Path]:
    """The plots that the results have data for, by name."""
    drawings: dict[str, Callable[[Any], bool]] = {
        "goals": partial(_goals, results=results),
        "latency": partial(_latency, cases=results.of("latency")),
        "growth": partial(_growth, results=results),
        "start": partial(_start, results=results),
        **{work: partial(_bars, cases=results.of(work)) for work in _BARS},
    }
    directory.mkdir(parents=True, exist_ok=True)
    pyplot = _pyplot()
    written = {}
    for name, draw in drawings.items():
        if draw(pyplot):
            path = directory / f"{name}.svg"
            pyplot.savefig(path, format="svg", metadata={"Date": None})
            written[name] = path
        pyplot.close("all")
    return written


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("svg")
    # Text stays text and ids do not change from run to run: small files, small differences.
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "oncelog",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.constrained_layout.use": True,
        }
    )
    from matplotlib import pyplot

    return pyplot


def _goals(pyplot: Any, results: Results) -> bool:
    """How far each figure is from its bound: right of the line is better than asked for."""
    shown: list[tuple[Goal, Spread, str]] = []
    for goal in GOALS:
        verdict = goal.judge(results)
        if verdict.value is not None and verdict.value.median > 0:
            shown.append((goal, verdict.value, verdict.word))
    if not shown:
        return False
    _, axes = pyplot.subplots(figsize=(9, 1 + 0.24 * len(shown)))
    for row, (goal, value, word) in enumerate(reversed(shown)):
        margin = value.median / goal.bound if goal.at_least else goal.bound / value.median
        axes.barh(row, margin - 1, left=1, color=_VERDICTS[word], height=0.7)
    axes.set_yticks(range(len(shown)), [f"{goal.text} ({goal.side})" for goal, _, _ in reversed(shown)], fontsize=7)
    axes.set_xscale("log")
    axes.set_xticks(_MARGINS)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.axvline(1, color="#1b1f24", linewidth=1)
    axes.set_xlabel("times better than the goal (left of the line: short of it)")
    return True


def _bars(pyplot: Any, cases: Sequence[CaseResult]) -> bool:
    """The headline of every case as a ratio to Kafka, a bar for every other peer, with the range of its rounds."""
    ratios = [
        {peer: found for peer in COLOURS if peer != BASE and (found := _ratio(case, peer)) is not None}
        for case in cases
    ]
    peers = [peer for peer in COLOURS if any(peer in one for one in ratios)]
    if not peers:
        return False
    _, axes = pyplot.subplots(figsize=(max(5.0, 1.1 * len(cases) + 2), 3.2))
    width = 0.8 / len(peers)
    for number, peer in enumerate(peers):
        places = [index + (number - (len(peers) - 1) / 2) * width for index, one in enumerate(ratios) if peer in one]
        _bar(axes, places, [one[peer] for one in ratios if peer in one], width, peer)
    axes.axhline(1, color=COLOURS[BASE], linewidth=1, label=BASE)
    axes.set_xticks(range(len(cases)), [case.name.replace(", ", "\n") for case in cases], fontsize=7)
    axes.set_ylabel(f"{metric(cases[0].headline).label}, ratio to Kafka")
    axes.legend(frameon=False, fontsize=7, ncols=3)
    return True


def _ratio(case: CaseResult, peer: str) -> Spread | None:
    return ratio(case.values(peer, case.headline), case.values(BASE, case.headline))


def _bar(axes: Any, places: Sequence[float], values: Sequence[Spread], width: float, peer: str) -> None:
    medians = [value.median for value in values]
    errors = [[value.median - value.low for value in values], [value.high - value.median for value in values]]
    style = {"linewidth": 0.6, "ecolor": "#1b1f24"}
    axes.bar(places, medians, width, color=COLOURS[peer], label=peer, yerr=errors, error_kw=style)


def _latency(pyplot: Any, cases: Sequence[CaseResult]) -> bool:
    cases = [case for case in cases if case.metrics()]
    if not cases:
        return False
    _, all_axes = pyplot.subplots(1, len(cases), figsize=(4.6 * len(cases), 3.2), squeeze=False, sharey=True)
    names = ("p50_ms", "p99_ms", "p999_ms")
    for axes, case in zip(all_axes[0], cases, strict=True):
        peers = [peer for peer in COLOURS if case.values(peer, names[0])]
        width = 0.8 / max(1, len(peers))
        for number, peer in enumerate(peers):
            tails = [values for name in names if (values := case.values(peer, name))]
            places = [index + (number - (len(peers) - 1) / 2) * width for index in range(len(tails))]
            _bar(axes, places, [spread(values) for values in tails], width, peer)
        axes.set_xticks(range(len(names)), ["p50", "p99", "p99.9"])
        axes.set_yscale("log")
        axes.set_title(case.name, loc="left")
    all_axes[0][0].set_ylabel("ms")
    all_axes[0][0].legend(frameon=False, fontsize=7)
    return True


def _growth(pyplot: Any, results: Results) -> bool:
    curves = [entry for entry in _CURVES if _points(results, *entry[:2])]
    if not curves:
        return False
    _, all_axes = pyplot.subplots(1, len(curves), figsize=(3.6 * len(curves), 3), squeeze=False)
    for axes, (work, param, label) in zip(all_axes[0], curves, strict=True):
        for peer, points in _points(results, work, param).items():
            places = [place for place, _ in points]
            axes.plot(places, [value.median for _, value in points], marker="o", color=COLOURS[peer], label=peer)
            lows, highs = [value.low for _, value in points], [value.high for _, value in points]
            axes.fill_between(places, lows, highs, color=COLOURS[peer], alpha=0.15, linewidth=0)
        axes.set_xscale("symlog" if param == "idle_connections" else "log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(label)
    all_axes[0][0].set_ylabel("broker CPU µs per request")
    all_axes[0][0].legend(frameon=False, fontsize=7)
    return True


def _points(results: Results, work: str, param: str) -> dict[str, list[tuple[float, Spread]]]:
    found = {peer: curve(results, work, param, peer, "cpu_us_per_request") for peer in COLOURS}
    return {peer: points for peer, points in found.items() if points}


def _start(pyplot: Any, results: Results) -> bool:
    cases = results.of("start")
    names = ("start_s", "idle_rss_mb")
    peers = [peer for peer in COLOURS if cases and cases[0].values(peer, names[0])]
    if not peers:
        return False
    _, all_axes = pyplot.subplots(1, 2, figsize=(8, 2.4))
    for axes, name in zip(all_axes, names, strict=True):
        for number, peer in enumerate(peers):
            _bar(axes, [number], [spread(cases[0].values(peer, name))], 0.7, peer)
        axes.set_xticks(range(len(peers)), peers, fontsize=7)
        axes.set_ylabel(metric(name).label)
    return True
