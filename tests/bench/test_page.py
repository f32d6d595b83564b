"""The page, from the JSON of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.report import page
from bench.results import Results, Run, load
from tests.bench.results import sample_results


def text_of(results: Results) -> str:
    return "\n".join(page.lines(results, {"produce": "plots/produce.svg"}))


def test_results_survive_their_file(tmp_path: Path) -> None:
    results = sample_results()
    results.cases[0].runs["kafka"].error = "it fell"
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_case_that_is_measured_again_takes_its_former_place() -> None:
    results, again = sample_results(), sample_results().cases[0]
    again.runs = {"kafka": Run([{"mb_per_s": 1.0}])}
    results.put(again)
    assert results.cases[0] is again
    assert len(results.cases) == len(sample_results().cases)


def test_the_page_has_goals_with_verdicts_and_ratios_with_spreads() -> None:
    text = text_of(sample_results())
    cache, fsync = "≥ 1.5x | 1.68x [1.35, 2.00] | partly met", "≥ 1x | 1.03x [0.90, 1.15] | partly met"
    assert f"| produce throughput, 100 B | {cache} | {fsync} | 2.86x [2.73, 3.00] by floor |" in text
    assert "| 10,000 partitions: RSS | ≤ 300 MB | 125.00 MB [50.00, 200.00] | **met** |" in text
    assert "| 100 B x 8 | 100.0 | 1.35x [1.30, 1.40], 135.0 |" in text
    assert "![Produce throughput](plots/produce.svg)" in text
    assert "What was not measured" not in text


def test_the_page_begins_with_what_holds_and_what_is_in_the_way_of_the_rest() -> None:
    top, _, rest = text_of(sample_results()).partition("## Goals")
    assert "**7 of 33 goals are met**, 2 partly met, 4 not met, 20 not measured." in top
    assert (
        "| produce throughput, 100 B, page cache | ≥ 1.5x | 1.68x [1.35, 2.00] (partly) | 2.86x [2.73, 3.00] by floor |"
        in top
    )
    one = "one-record transactions per second, confluent-kafka, page cache"
    assert f"| {one} | ≥ 10x | 2.50x | 2.70x by kfake, **short of it too** |" in top
    assert "Java's client" not in top
    assert "## How it was measured" in rest


def test_a_page_of_goals_that_all_hold_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    results = sample_results()
    monkeypatch.setattr(page, "GOALS", [goal for goal in page.GOALS if goal.judge(results).is_met])
    top = text_of(results).partition("## Goals")[0]
    assert "goals are met**." in top
    assert "within reach" not in top


def test_what_failed_or_was_left_out_is_on_the_page() -> None:
    results = sample_results()
    results.cases[0].runs["oncelog"] = Run([], "WireError: silence")
    results.cases[1].skipped = "no time"
    text = text_of(results)
    assert "- produce, 100 B x 1, oncelog: WireError: silence" in text
    assert "- produce, 100 B x 8: left out, no time" in text


def test_a_client_that_was_the_bottleneck_is_marked() -> None:
    results = sample_results()
    for peer, broker_cores in (("kafka", 0.9), ("oncelog", 0.3)):
        for sample in results.cases[0].runs[peer].samples:
            sample |= {"client_cores": 1.2, "broker_cores": broker_cores}
    (row,) = [line for line in text_of(results).splitlines() if line.startswith("| 100 B x 1 |")]
    kafka, oncelog = row.split("|")[2:4]
    assert "ᶜ" not in kafka
    assert "ᶜ" in oncelog


def test_the_page_is_written_with_plots_beside_the_json(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plots need the extra bench")
    written = page.write_page(sample_results(), tmp_path / "results.json")
    assert written == tmp_path / "RESULTS.md"
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {"goals.svg", "produce.svg", "latency.svg", "growth.svg", "transactions.svg"}
    for name in names:
        assert f"](plots/{name})" in written.read_text(encoding="utf-8")
