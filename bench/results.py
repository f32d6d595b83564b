"""What a run has measured, as JSON: every sample of every peer, with what failed and what was left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.meter import Sample

RESULTS_PATH = Path(__file__).with_name("results.json")
# A quick run is for looking, not for keeping.
QUICK_PATH = Path(__file__).with_name("quick.json")


@dataclass
class Run:
    """One peer's rounds of one case; a run that failed keeps the samples before the failure."""

    samples: list[Sample] = field(default_factory=list)
    error: str | None = None

    def values(self, metric: str) -> list[float]:
        return [sample[metric] for sample in self.samples if metric in sample]


@dataclass
class CaseResult:
    work: str
    name: str
    headline: str
    params: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    seconds: float = 0.0
    run: str = ""
    """When the run began in which it was measured."""
    skipped: str | None = None

    def values(self, peer: str, metric: str) -> list[float]:
        run = self.runs.get(peer)
        return run.values(metric) if run is not None else []

    def metrics(self) -> list[str]:
        """In the order in which the works name them."""
        names: dict[str, None] = {}
        for run in self.runs.values():
            for sample in run.samples:
                names |= dict.fromkeys(sample)
        return list(names)


@dataclass
class Results:
    machine: dict[str, Any] = field(default_factory=dict)
    started: str = ""
    minutes: float = 0.0
    warmup_seconds: float = 0.0
    cases: list[CaseResult] = field(default_factory=list)

    def of(self, work: str, **params: object) -> list[CaseResult]:
        return [
            case
            for case in self.cases
            if case.work == work and all(case.params.get(key) == value for key, value in params.items())
        ]

    def put(self, case: CaseResult) -> None:
        """A case that was measured again takes the place of its former self."""
        for index, other in enumerate(self.cases):
            if (other.work, other.name) == (case.work, case.name):
                self.cases[index] = case
                return
        self.cases.append(case)

    def save(self, path: Path) -> None:
        """Whole or not at all: a run that is killed leaves what it had before."""
        text = json.dumps(asdict(self), indent=1, default=str)
        scratch = path.with_suffix(".partial")
        scratch.write_text(text + "\n", encoding="utf-8")
        scratch.replace(path)


def load(path: Path) -> Results:
    return from_json(json.loads(path.read_text(encoding="utf-8")))


def from_json(data: dict[str, Any]) -> Results:
    cases: Sequence[dict[str, Any]] = data.pop("cases")
    results = Results(**data)
    for case in cases:
        runs = {peer: Run(**run) for peer, run in case.pop("runs").items()}
        results.cases.append(CaseResult(**case, runs=runs))
    return results
