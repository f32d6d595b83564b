"""The HTML report of an audit: one file, plots inline, no script, no address of anybody."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.evidence import Verdict

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
table { border-collapse: collapse } td, th { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
.good { color: #1a7f37 } .bad { color: #cf222e } svg { max-width: 100%; height: auto } p.note { color: #57606a }
"""
_GOOD, _BAD, _QUIET = "#1a7f37", "#cf222e", "#8c959f"


class Section(NamedTuple):
    """One output topic."""

    title: str
    topic: str
    verdict: Verdict
    uncommitted: int
    by_partition: Mapping[int, tuple[int, int]]
    notes: Sequence[str] = ()


def write_report(path: Path, title: str, sections: Sequence[Section], notes: Sequence[str] = ()) -> None:
    parts = [f"<h1>{html.escape(title)}</h1>", *(f"<p class=note>{html.escape(note)}</p>" for note in notes)]
    parts += [_verdicts_table(sections), _overview_plot(sections)]
    for section in sections:
        parts += _section(section)
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
        f"<p>{_word(section.verdict)}. A reader without isolation sees {section.uncommitted} records.</p>",
        f"<ul>{notes}</ul>" if notes else "",
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
        cells = "".join(f"<td>{value}" for value in section.verdict)
        mark = "good" if section.verdict.exactly_once else "bad"
        rows.append(f"<tr><td class={mark}>{html.escape(section.title)}{cells}")
    return f"<table><tr><th>output{head}{''.join(rows)}</table>"


def _overview_plot(sections: Sequence[Section]) -> str:
    figure, axes = _figure(0.7 + 0.5 * len(sections))
    kinds = (("lost", _QUIET), ("duplicated", _BAD), ("unexpected", "#bf8700"), ("aborted_visible", "#8250df"))
    titles = [section.title for section in sections]
    left = [0] * len(sections)
    for kind, colour in kinds:
        widths = [getattr(section.verdict, kind) for section in sections]
        axes.barh(titles, widths, left=left, color=colour, label=kind.replace("_", " "))
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_xlim(0, max([*left, 1]) * 1.05)
    axes.set_title("records that exactly-once forbids", loc="left")
    axes.legend(frameon=False, ncols=4, fontsize=8)
    axes.invert_yaxis()
    return _svg(figure)


def _partition_plot(section: Section) -> str:
    figure, axes = _figure(2.2)
    names = [f"partition {partition}" for partition in section.by_partition]
    visible = [counts[0] for counts in section.by_partition.values()]
    aborted = [counts[1] for counts in section.by_partition.values()]
    axes.bar(names, visible, color=_GOOD, label="visible")
    axes.bar(names, aborted, bottom=visible, color=_QUIET, label="aborted, invisible to read_committed")
    axes.set_title("records in the log", loc="left")
    axes.legend(frameon=False, fontsize=8)
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
