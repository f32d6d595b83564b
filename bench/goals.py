"""The goals of the project's speed, as data, and whether a run meets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.results import Results
from bench.stats import Spread, ratio, spread
from bench.works.growth import CONTROL
from bench.works.transactions import CLIENTS

# What a flat curve may rise over its whole length before it counts as growth: the noise between two rounds.
FLAT_MAX = 1.25

# A ratio for every case, with the range of its rounds.
Measure = Callable[[Results], list[Spread]]


class Verdict(NamedTuple):
    """`value` is a ratio unless the goal has a unit; its range is that of the cases, or of a single one's rounds."""

    word: str
    value: Spread | None

    @property
    def is_met(self) -> bool:
        return self.word == "met"


class Reach(NamedTuple):
    """What a peer that does next to nothing makes of the same work: about as far as the client lets a broker come."""

    peer: str
    measure: Measure


class Goal(NamedTuple):
    text: str
    side: str
    bound: float
    at_least: bool
    measure: Measure
    unit: str = "x"
    reach: Reach | None = None

    @property
    def wanted(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}{self.unit if self.unit == 'x' else ' ' + self.unit}"

    def judge(self, results: Results) -> Verdict:
        """Of several cases the median decides; it is only partly met while some of them miss it."""
        cases = self.measure(results)
        value = _together(cases)
        if value is None:
            return Verdict("not measured", None)
        if all(self._holds(case.median) for case in cases):
            return Verdict("met", value)
        return Verdict("partly met" if self._holds(value.median) else "not met", value)

    def within_reach(self, results: Results) -> Spread | None:
        return _together(self.reach.measure(results)) if self.reach is not None else None

    def is_beyond_reach(self, results: Results) -> bool:
        value = self.within_reach(results)
        return value is not None and not self._holds(value.median)

    def _holds(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


def _together(cases: Sequence[Spread]) -> Spread | None:
    if len(cases) > 1:
        return spread([case.median for case in cases])
    return cases[0] if cases else None


def against(work: str, metric: str, peer: str, base: str, params: Mapping[str, Any] | None = None) -> Measure:
    """For every case of a work, the ratios of its rounds."""

    def measure(results: Results) -> list[Spread]:
        found = (
            ratio(case.values(peer, metric), case.values(base, metric)) for case in results.of(work, **(params or {}))
        )
        return [quotient for quotient in found if quotient is not None]

    return measure


def growth(work: str, param: str, end: float) -> Measure:
    """What a request costs Oncelog at the end of a curve, as a multiple of what it costs where nothing has grown.

    That is the control of the same rounds: the beginning of the curve is minutes away, and the machine is shared.
    """
    return against(work, "cpu_us_per_request", "oncelog", CONTROL, {param: end})


def curve(results: Results, work: str, param: str, peer: str, metric: str) -> list[tuple[float, Spread]]:
    points = [
        (float(case.params[param]), spread(case.values(peer, metric)))
        for case in results.of(work)
        if param in case.params and case.values(peer, metric)
    ]
    return sorted(points)


def absolute(work: str, metric: str, peer: str, *params: Mapping[str, Any]) -> Measure:
    """Of all cases that have one of these parameters."""

    def measure(results: Results) -> list[Spread]:
        cases = (case for some in params for case in results.of(work, **some))
        return [spread(values) for case in cases if (values := case.values(peer, metric))]

    return measure


CACHE, FSYNC = "page cache", "every ack fsynced"
_PEER = {CACHE: "oncelog", FSYNC: "oncelog-fsync"}
# Who shows what is within reach: the floor where it serves the work, otherwise kfake, which keeps all in memory.
_REACHES = {"produce": "floor", "latency": "floor", "consume": "kfake", "transactions": "kfake", "transform": "kfake"}
_REACHES_FSYNCED = {"latency": "floor-fsync"}


def _pair(
    text: str, work: str, metric: str, bounds: Mapping[str, float], *, at_least: bool, **params: Any
) -> list[Goal]:
    goals = []
    for side, bound in bounds.items():
        reaching = _REACHES_FSYNCED.get(work) if side == FSYNC else None
        reach = _reach(work, metric, reaching or _REACHES.get(work), "kafka", params)
        measure = against(work, metric, _PEER[side], "kafka", params)
        goals.append(Goal(text, side, bound, at_least, measure, reach=reach))
    return goals


def _reach(work: str, metric: str, peer: str | None, base: str, params: Mapping[str, Any]) -> Reach | None:
    return Reach(peer, against(work, metric, peer, base, params)) if peer is not None else None


def _goals() -> list[Goal]:
    goals: list[Goal] = []
    for size, name in ((100, "100 B"), (1000, "1 KB"), (10_000, "10 KB")):
        text = f"produce throughput, {name}"
        goals += _pair(text, "produce", "mb_per_s", {CACHE: 1.5, FSYNC: 1.0}, at_least=True, size=size)
    goals += _pair("broker CPU per MB produced", "produce", "cpu_ms_per_mb", {CACHE: 0.4, FSYNC: 0.5}, at_least=False)
    goals += _pair("broker CPU per MB consumed", "consume", "cpu_ms_per_mb", {CACHE: 0.5, FSYNC: 0.5}, at_least=False)
    goals += _pair("consume throughput", "consume", "mb_per_s", {CACHE: 1.2}, at_least=True)
    single = "single produce latency"
    goals += _pair(f"{single}, p50", "latency", "p50_ms", {CACHE: 0.5, FSYNC: 2.0}, at_least=False, kind="produce")
    goals += _pair(f"{single}, p99", "latency", "p99_ms", {CACHE: 0.7, FSYNC: 2.0}, at_least=False, kind="produce")
    for metric, name in (("p50_ms", "p50"), ("p99_ms", "p99")):
        base, params = "kafka-fsync", {"kind": "produce"}
        measure = against("latency", metric, "oncelog-fsync", base, params)
        reach = _reach("latency", metric, "floor-fsync", base, params)
        text = f"{single}, {name}, against Kafka with flush.messages=1"
        goals.append(Goal(text, FSYNC, 0.3, False, measure, reach=reach))
    for client, name in CLIENTS.items():
        one, params = f"one-record transactions per second, {name}", {"records": 1, "client": client}
        goals += _pair(one, "transactions", "transactions_per_s", {CACHE: 10, FSYNC: 4}, at_least=True, **params)
    transform = "consume-transform-produce, records per second"
    goals += _pair(transform, "transform", "records_per_s", {CACHE: 2, FSYNC: 1.2}, at_least=True)
    goals += _pair("start to ready", "start", "start_s", {CACHE: 0.1, FSYNC: 0.1}, at_least=False)
    goals += _pair("idle RSS", "start", "idle_rss_mb", {CACHE: 0.1, FSYNC: 0.1}, at_least=False)
    floor = against("produce", "cpu_ms_per_mb", "oncelog", "floor", {"size": 10_000})
    goals.append(Goal("broker CPU against the floor program, 10 KB records", CACHE, 2.0, False, floor))
    for work, param, end, name in (
        ("biglog", "log_gb", 20.0, "the log grows to 20 GB"),
        ("partitions", "partitions", 10_000, "idle partitions grow to 10,000"),
        ("idle-connections", "idle_connections", 4000, "idle connections grow to 4,000"),
    ):
        goals.append(Goal(f"cost per request as {name}", CACHE, FLAT_MAX, False, growth(work, param, end)))
    many = {"start_with_partitions": 10_000}
    start = absolute("partitions", "start_s", "oncelog", many)
    goals.append(Goal("10,000 partitions: start to ready", CACHE, 5.0, False, start, "s"))
    rss = absolute("partitions", "rss_mb", "oncelog", many, {"partitions": 10_000})
    goals.append(Goal("10,000 partitions: RSS", CACHE, 300.0, False, rss, "MB"))
    return goals


GOALS = _goals()
