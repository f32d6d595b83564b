"""RESULTS.md from the JSON of a run: the goals, then every case with ratios, costs and who was busy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.peers import DESCRIPTIONS
from bench.report.metrics import metric, number
from bench.results import CaseResult, Results
from bench.stats import ratio, spread

BASE = "kafka"


def write_page(results: Results, json_path: Path) -> Path:
    """Beside the JSON: results.json gives RESULTS.md, quick.json gives QUICK.md."""
    path = json_path.with_name(f"{json_path.stem.upper()}.md")
    path.write_text("\n".join(lines(results)) + "\n", encoding="utf-8")
    return path


def lines(results: Results) -> Iterator[str]:
    yield "# Side by side"
    yield ""
    for name, text in DESCRIPTIONS.items():
        yield f"- **{name}**: {text}"
    for case in results.cases:
        yield from case_lines(case)


def case_lines(case: CaseResult) -> Iterator[str]:
    names = case.metrics()
    yield ""
    yield f"### {case.work}: {case.name}"
    yield ""
    yield "| peer | " + " | ".join(metric(name).label for name in names) + " |"
    yield "|---|" + "---:|" * len(names)
    for peer, run in case.runs.items():
        yield f"| {peer} | " + " | ".join(_cell(case, peer, name) for name in names) + " |"
        if run.error is not None:
            yield f"| | {run.error} |"


def _cell(case: CaseResult, peer: str, name: str) -> str:
    values = case.values(peer, name)
    if not values:
        return ""
    text = number(spread(values).median, metric(name).digits)
    against = ratio(values, case.values(BASE, name)) if peer != BASE else None
    return f"{text} ({against.median:.2f}x)" if against is not None else text
