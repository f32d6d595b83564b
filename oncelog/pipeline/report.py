"""The HTML report of an audit: one file, plots inline, no script, no address of anybody."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oncelog.pipeline.evidence import Verdict

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
table { border-collapse: collapse } td, th { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left; white-space: nowrap }
.good { color: #1a7f37 } .bad { color: #cf222e } svg { width: 100%; height: auto } p.note { color: #57606a }
"""
_GOOD, _BAD, _QUIET = "#1a7f37", "#cf222e", "#8c959f"
_KINDS = (("lost", "#57606a"), ("duplicated", _BAD), ("unexpected", "#bf8700"), ("aborted_visible", "#8250df"))


class Course(NamedTuple):
    """How a run went, as a reader of committed records saw it; in seconds since its start."""

    visible: Sequence[tuple[float, int]]
    kills: Sequence[tuple[float, str]]


class Section(NamedTuple):
    """One output topic."""

    title: str
    topic: str
    verdict: Verdict
    uncommitted: int
    by_partition: Mapping[int, tuple[int, int]]
    notes: Sequence[str] = ()
    course: Course | None = None
    surplus: Mapping[str, float] = {}
    """By account, how much more the output says than the input."""


class Totals(NamedTuple):
    """What each account has paid, by the input and by each output."""

    countries: Mapping[str, str]
    truth: Mapping[str, float]
    found: Mapping[str, Mapping[str, float]]


def write_report(
    path: Path, title: str, sections: Sequence[Section], notes: Sequence[str] = (), totals: Totals | None = None
) -> None:
    parts = [f"<h1>{html.escape(title)}</h1>", *(f"<p class=note>{html.escape(note)}</p>" for note in notes)]
    parts += [_verdicts_table(sections), _overview_plot(sections)]
    for section in sections:
        parts += _section(section)
    if totals is not None:
        parts.append(_totals_table(totals))
    text = "\n".join(parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style><body>{text}</body></html>\n",
        encoding="utf-8",
    )


def _section(section: Section) -> list[str]:
    notes = "".join(f"<li>{html.escape(note)}" for note in section.notes)
    return [
        f"<h2>{html.escape(section.title)}</h2>",
        f"<p>{_word(section.verdict)}. A reader without isolation sees {section.uncommitted:,} records.</p>",
        f"<ul>{notes}</ul>" if notes else "",
        _course_plot(section, section.course) if section.course else "",
        _surplus_plot(section.surplus) if any(section.surplus.values()) else "",
        _partition_plot(section),
    ]


def _word(verdict: Verdict) -> str:
    if verdict.exactly_once:
        return "<b class=good>Exactly once</b>: every input record is visible, and visible once"
    return "<b class=bad>Not exactly once</b>"


def _verdicts_table(sections: Sequence[Section]) -> str:
    names = Verdict._fields
    head = "".join(f"<th>{name.replace('_', ' ')}" for name in names)
    rows = []
    for section in sections:
        cells = "".join(f"<td>{value:,}" for value in section.verdict)
        mark = "good" if section.verdict.exactly_once else "bad"
        rows.append(f"<tr><td class={mark}>{html.escape(section.title)}{cells}")
    return f"<table><tr><th>output{head}{''.join(rows)}</table>"


def _totals_table(totals: Totals) -> str:
    head = "".join(f"<th>{html.escape(name)}" for name in totals.found)
    rows = []
    for account, paid in sorted(totals.truth.items()):
        cells = ""
        for found in totals.found.values():
            mark = "good" if found.get(account) == paid else "bad"
            cells += f"<td class={mark}>{found.get(account, 0):,.2f}"
        country = html.escape(totals.countries.get(account, ""))
        rows.append(f"<tr><td>{html.escape(account)}<td>{country}<td>{paid:,.2f}{cells}")
    return (
        "<h2>What each account has paid</h2><p>As a reader of the input, and of each output, adds it up.</p>"
        f"<table><tr><th>account<th>country<th>payments{head}{''.join(rows)}</table>"
    )


def _overview_plot(sections: Sequence[Section]) -> str:
    figure, axes = _figure(0.9 + 0.45 * len(sections))
    titles = [section.title for section in sections]
    left = [0] * len(sections)
    for kind, colour in _KINDS:
        widths = [getattr(section.verdict, kind) for section in sections]
        axes.barh(titles, widths, left=left, color=colour, height=0.6, label=kind.replace("_", " "))
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for row, total in enumerate(left):
        axes.text(total, row, f" {total:,}", va="center", fontsize=9)
    axes.set_xlim(0, max([*left, 1]) * 1.12)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Records that exactly-once forbids", loc="left")
    axes.legend(frameon=False, ncols=4, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.25))
    axes.invert_yaxis()
    return _svg(figure)


def _course_plot(section: Section, course: Course) -> str:
    """What was visible over time, with the kills; a line above the expected one is made of duplicates."""
    figure, axes = _figure(2.8)
    expected = section.verdict.expected
    colour = _GOOD if section.verdict.exactly_once else _BAD
    axes.step(*zip(*course.visible, strict=True), where="post", color=colour, label="visible to a reader")
    axes.axhline(expected, color=_QUIET, linestyle="--", linewidth=1, label="payments in the input")
    top = max([expected, *(count for _, count in course.visible)]) * 1.3
    axes.set_ylim(0, top)
    for moment, what in course.kills:
        axes.axvline(moment, color="#24292f", linewidth=1, linestyle=":")
        axes.text(moment, top * 0.98, f"kill {what}", rotation=90, va="top", ha="right", fontsize=8)
    axes.set_xlabel("seconds")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("Records that a read_committed reader has been given", loc="left")
    axes.legend(frameon=False, fontsize=8, loc="center left")
    return _svg(figure)


def _surplus_plot(surplus: Mapping[str, float]) -> str:
    figure, axes = _figure(2.2)
    names = sorted(surplus)
    axes.bar(range(len(names)), [surplus[name] for name in names], color=_BAD)
    axes.axhline(0, color=_GOOD, linewidth=2)
    axes.set_xticks([])
    axes.set_xlabel(f"{len(names)} accounts")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("Money that an account's total has too much", loc="left")
    return _svg(figure)


def _partition_plot(section: Section) -> str:
    figure, axes = _figure(2.2)
    names = [f"partition {partition}" for partition in section.by_partition]
    visible = [counts[0] for counts in section.by_partition.values()]
    aborted = [counts[1] for counts in section.by_partition.values()]
    axes.barh(names, visible, color="#0969da", label="visible")
    axes.barh(names, aborted, left=visible, color=_QUIET, label="aborted, invisible to read_committed")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.invert_yaxis()
    axes.set_title("Records in the log", loc="left")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    return _svg(figure)


def _figure(height: float) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, height), layout="constrained")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _svg(figure: Any) -> str:
    from matplotlib import pyplot

    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return out.getvalue().partition("<svg")[1] + out.getvalue().partition("<svg")[2]
