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
    assert "| produce throughput, 100 B | ≥ 1.5x | 1.68x [1.35, 2.00] | partly met | 2.86x | ≥ 1x |" in text
    assert "| 10,000 partitions: RSS | ≤ 300 MB | 200.00 MB | **met** |" in text
    assert "| 100 B x 8 | 100.0 | 1.35x [1.30, 1.40], 135.0 |" in text
    assert "![Produce throughput](plots/produce.svg)" in text
    assert "What was not measured" not in text


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
    assert names == {"goals.svg", "produce.svg", "latency.svg", "growth.svg"}
    for name in names:
        assert f"](plots/{name})" in written.read_text(encoding="utf-8")
