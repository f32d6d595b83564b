"""Turns, budgets and failures, with peers that are only names and a clock that the test moves."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import cast

import pytest

import bench.runner
from bench.case import Case, Work
from bench.meter import Sample
from bench.peers.base import Peer
from bench.results import CaseResult
from bench.runner import Plan, Runner, Settings, plan


class NamedPeer:
    def __init__(self, name: str, pool: NamedPool) -> None:
        self.name = name
        self.pool = pool

    def settle(self) -> None:
        assert self.is_alone

    @property
    def is_alone(self) -> bool:
        return self.pool.alone == self.name


class NamedPool:
    """In the place of real brokers."""

    def __init__(self, *_: object, **__: object) -> None:
        self.closed = False
        self.alone: str | None = None

    def get(self, name: str, *, started: bool = True) -> NamedPeer:
        if name == "kfake":
            raise RuntimeError("kfake did not start: no go")
        return NamedPeer(name, self)

    def leave_alone(self, name: str) -> None:
        self.alone = name

    def pause_all(self) -> None:
        self.alone = None

    def close(self) -> None:
        self.closed = True


class Silent:
    def case_begins(self, case: CaseResult, turns: int) -> None:
        self.turns = turns

    def turn_ends(self, peer: str) -> None:
        pass

    def case_ends(self, case: CaseResult) -> None:
        pass


class Recorded(Case):
    headline = "value"
    clock = 0.0

    def __init__(self, name: str, peers: Sequence[str], cost_s: float = 1.0) -> None:
        super().__init__(name, peers)
        self.turns: list[tuple[int, str]] = []
        self.seconds: list[float] = []
        self.finished: list[str] = []
        self._cost_s = cost_s

    def prepare(self, peer: Peer, seconds: float) -> None:
        assert cast(NamedPeer, peer).is_alone

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        assert cast(NamedPeer, peer).is_alone
        self.turns.append((turn, peer.name))
        self.seconds.append(seconds)
        Recorded.clock += self._cost_s
        if peer.name == "floor" and turn == 2:
            raise ValueError("it\nfell")
        return {"value": float(turn)}

    def finish(self, peer: Peer) -> None:
        assert cast(NamedPeer, peer).is_alone
        self.finished.append(peer.name)


class SomeWork(Work):
    name = "some"
    title = "Some"

    def cases(self, options: Namespace) -> Sequence[Case]:
        return []


@pytest.fixture(autouse=True)
def no_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.runner, "Pool", NamedPool)
    Recorded.clock = 0.0


def run(cases: Sequence[Case], settings: Settings, peers: frozenset[str] | None = None) -> list[CaseResult]:
    runner = Runner(settings, Silent(), clock=lambda: Recorded.clock)
    return list(runner.run(plan([(SomeWork(), cases)], peers)))


def test_peers_take_turns_and_the_warm_up_is_not_counted() -> None:
    case = Recorded("a", ("kafka", "oncelog"))
    (result,) = run([case], Settings(rounds=2, seconds=0.5))
    assert [sorted(name for _, name in case.turns[at : at + 2]) for at in (0, 2, 4)] == [["kafka", "oncelog"]] * 3
    assert [name for _, name in case.turns[::2]] == ["kafka", "oncelog", "kafka"], "who begins changes"
    assert result.values("kafka", "value") == result.values("oncelog", "value") == [1.0, 2.0]
    assert case.seconds == [0.5] * 6
    assert case.finished == ["kafka", "oncelog"]


def test_a_failure_ends_only_itself() -> None:
    first, second = Recorded("a", ("kafka", "kfake", "floor")), Recorded("b", ("kafka",))
    results = run([first, second], Settings(rounds=3, seconds=1))
    runs = results[0].runs
    assert runs["kafka"].error is None
    assert runs["kafka"].values("value") == [1.0, 2.0, 3.0]
    assert runs["kfake"].error == "RuntimeError: kfake did not start: no go (get)"
    assert runs["floor"].error == "ValueError: it fell (measure)"
    assert runs["floor"].values("value") == [1.0], "what was measured before is kept"
    assert results[1].runs["kafka"].error is None
    assert first.finished == ["kafka", "floor"]


def test_only_the_peers_that_are_wanted_take_part() -> None:
    plans = plan([(SomeWork(), [Recorded("a", ("kafka", "oncelog")), Recorded("b", ("floor",))])], frozenset({"kafka"}))
    assert [(one.case.name, one.peers) for one in plans] == [("a", ("kafka",))]


def test_a_budget_decides_how_long_a_sample_is() -> None:
    """Two equal cases share 20 s: 10 s for each, 1 s of them for what surrounds the samples, 4 turns for the rest."""
    cases = [Recorded("a", ("kafka",), 2.25), Recorded("b", ("kafka",), 2.25)]
    run(cases, Settings(rounds=3, seconds=None, budget_seconds=20))
    assert cases[0].seconds == [2.25] * 4
    assert cases[1].seconds == pytest.approx([2.5] * 4), "what the first has left over, the second may use"


def test_a_case_over_its_share_ends_after_one_counted_round_and_what_does_not_fit_is_left_out() -> None:
    slow, late = Recorded("slow", ("kafka",), 100.0), Recorded("late", ("kafka",))
    results = run([slow, late], Settings(rounds=3, seconds=None, budget_seconds=60))
    assert len(results[0].runs["kafka"].samples) == 1
    assert results[1].skipped is not None
    assert late.turns == []


def test_the_weight_of_a_plan_counts_all_turns_of_all_peers() -> None:
    one = Plan(SomeWork(), Recorded("a", ()), ("kafka", "oncelog"))
    assert one.sampled_seconds(rounds=3) == 2 * 4
    assert one.extra_seconds == 2


def test_fixed_costs_come_off_the_budget_before_it_is_shared() -> None:
    """Of 40 s, one case needs 15 s for what surrounds its samples, the other 1 s: 12 s are left for those of each."""
    dear, cheap = Recorded("dear", ("kafka",), 27 / 4), Recorded("cheap", ("kafka",), 3.0)
    dear.extra_seconds = 15.0
    run([dear, cheap], Settings(rounds=3, seconds=None, budget_seconds=40))
    assert dear.seconds == cheap.seconds == pytest.approx([3.0] * 4)


def test_the_start_of_peers_costs_the_case_that_needs_them_first_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowPool(NamedPool):
        def get(self, name: str, *, started: bool = True) -> NamedPeer:
            Recorded.clock += 15.0
            return super().get(name, started=started)

    monkeypatch.setattr(bench.runner, "Pool", SlowPool)
    first = Recorded("a", ("kafka",), 2.0)
    (result, _) = run([first, Recorded("b", ("kafka",), 2.0)], Settings(rounds=3, seconds=None, budget_seconds=20))
    assert len(result.runs["kafka"].samples) == 3
