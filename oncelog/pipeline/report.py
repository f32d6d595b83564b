"""The HTML report of an audit: one file, plots inline, no script, no address of anybody."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oncelog.pipeline.verdict import REASONS, Offence, Verdict

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.6rem; margin-bottom: .6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem } h3 { font-size: 1rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: 0 0 1.4rem } dd { margin: 0 }
dt { color: #57606a } dd, td { overflow-wrap: anywhere }
.verdict { border-left: .4rem solid; padding: .5rem 1rem; margin: 1rem 0; background: #f6f8fa }
.verdict ul { margin: .3rem 0 0; color: #1b1f24 }
table { border-collapse: collapse } td, th { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left; white-space: nowrap }
.good { color: #1a7f37 } .bad { color: #cf222e } svg { width: 100%; height: auto } p.note { color: #57606a }
table.records td, table.records th { text-align: left; font-variant-numeric: tabular-nums }
.wide { overflow-x: auto }
@media print {
  @page { size: A4; margin: 16mm 14mm }
  body { font-size: 10pt; max-width: none; margin: 0; padding: 0 }
  h2, h3 { break-after: avoid } svg, tr, .verdict { break-inside: avoid } thead { display: table-header-group }
  td, th { padding: .1rem .4rem } .wide { overflow: visible } .verdict { background: none }
  * { print-color-adjust: exact }
}
"""
_GOOD, _BAD, _QUIET = "#1a7f37", "#cf222e", "#8c959f"
_KINDS = (("lost", "#57606a"), ("duplicated", _BAD), ("unexpected", "#bf8700"), ("aborted_visible", "#8250df"))


OFFENCES_SHOWN_MAX = 20
"""Of each kind."""


class Course(NamedTuple):
    """How a run went; in seconds since its start."""

    visible: Sequence[tuple[float, int]]
    kills: Sequence[tuple[float, str]]
    aborts: Sequence[float] = ()
    """When transactions were aborted."""
    met: Sequence[str] = ()
    """What each kill met, in words."""
    title: str = "Records that a read_committed reader has been given"


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
    offences: Sequence[Offence] = ()


class Totals(NamedTuple):
    """What each account has paid, by the input and by each output."""

    countries: Mapping[str, str]
    truth: Mapping[str, float]
    found: Mapping[str, Mapping[str, float]]


class Heading(NamedTuple):
    """What was audited: the title of the page has all of it, so that a printed or saved one can be told from others."""

    title: str
    facts: Mapping[str, str]
    """Such as the broker, the time and the transactional id."""

    @property
    def line(self) -> str:
        return " · ".join([self.title, *(f"{name} {value}" for name, value in self.facts.items())])


def write_report(
    path: Path, heading: Heading, sections: Sequence[Section], notes: Sequence[str] = (), totals: Totals | None = None
) -> None:
    facts = "".join(f"<dt>{html.escape(name)}<dd>{html.escape(value)}" for name, value in heading.facts.items())
    parts = [f"<h1>{html.escape(heading.title)}</h1><dl>{facts}</dl>"]
    parts += [f"<p class=note>{html.escape(note)}</p>" for note in notes]
    parts += [_verdicts_table(sections), _overview_plot(sections)]
    for section in sections:
        parts += _section(section)
    if totals is not None:
        parts.append(_totals_table(totals))
    text = "\n".join(parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(heading.line)}</title>"
        f"<style>{_STYLE}</style><body>{text}</body></html>\n",
        encoding="utf-8",
    )


def _section(section: Section) -> list[str]:
    notes = "".join(f"<li>{html.escape(note)}" for note in section.notes)
    return [
        f"<h2>{html.escape(section.title)}</h2>",
        _verdict(section.verdict),
        f"<p>A reader without isolation sees {section.uncommitted:,} records.</p>",
        f"<ul>{notes}</ul>" if notes else "",
        _course_plot(section, section.course) if section.course else "",
        _surplus_plot(section.surplus) if any(section.surplus.values()) else "",
        _partition_plot(section),
        *_offences(section.offences),
    ]


def _verdict(verdict: Verdict) -> str:
    mark, words = ("good", "Exactly once") if verdict.exactly_once else ("bad", "Not exactly once")
    reasons = verdict.reasons or ["every input record is visible, and visible once"]
    lines = "".join(f"<li>{html.escape(reason)}" for reason in reasons)
    return f"<div class='verdict {mark}'><b>{words}</b><ul>{lines}</ul></div>"


def _offences(offences: Sequence[Offence]) -> list[str]:
    """Which records it was, kind by kind."""
    parts = []
    for kind, reason in REASONS.items():
        found = [each for each in offences if each.kind == kind]
        if not found:
            continue
        shown = found[:OFFENCES_SHOWN_MAX]
        more = f" (the first {len(shown)} of {len(found):,})" if len(found) > len(shown) else ""
        rows = "".join(f"<tr><td>{html.escape(each.source)}<td>{_places(each)}" for each in shown)
        parts.append(
            f"<h3>{kind.replace('_', ' ').capitalize()}: {html.escape(reason)}{more}</h3><table class=records><thead>"
            f"<tr><th>input record (partition:offset)<th>in the output</thead>{rows}</table>"
        )
    return parts


def _places(offence: Offence) -> str:
    by_partition: dict[int, list[str]] = {}
    for partition, offset in offence.places:
        by_partition.setdefault(partition, []).append(str(offset))
    where = (
        f"partition {partition}, offset{'s' * (len(offsets) > 1)} {' and '.join(offsets)}"
        for partition, offsets in by_partition.items()
    )
    return "; ".join(where) or "nowhere"


def _verdicts_table(sections: Sequence[Section]) -> str:
    names = Verdict._fields
    head = "".join(f"<th>{name.replace('_', ' ')}" for name in names)
    rows = []
    for section in sections:
        cells = "".join(f"<td>{value:,}" for value in section.verdict)
        mark = "good" if section.verdict.exactly_once else "bad"
        rows.append(f"<tr><td class={mark}>{html.escape(section.title)}{cells}")
    return f"<div class=wide><table><tr><th>output{head}{''.join(rows)}</table></div>"


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
    axes.axhline(expected, color=_QUIET, linestyle="--", linewidth=1, label="records in the input")
    top = max([expected, *(count for _, count in course.visible)]) * 1.3
    axes.set_ylim(0, top)
    if course.aborts:
        style = {"marker": "x", "color": _BAD, "linestyle": "none", "markersize": 5}
        axes.plot(course.aborts, [top * 0.02] * len(course.aborts), label="a transaction is aborted", **style)
    for moment, what in course.kills:
        axes.axvline(moment, color="#24292f", linewidth=1, linestyle=":")
        axes.text(moment, top * 0.98, f"kill {what}", rotation=90, va="top", ha="right", fontsize=8)
    axes.set_xlabel("seconds")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(course.title, loc="left")
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
