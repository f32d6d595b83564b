"""Runs works: all peers of a case take turns, round by round, within a time budget; a failure ends only itself."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from bench.case import Case, Work
from bench.peers import Pool
from bench.peers.base import Peer
from bench.results import CaseResult, Run
from bench.warmup import warm_up

SECONDS_MIN, SECONDS_MAX = 0.3, 3.0
# A case that the budget leaves less than this share of what it needs would end nowhere.
_TOO_LITTLE = 0.4


class Settings(NamedTuple):
    rounds: int = 3
    # For one sample; None lets the budget decide.
    seconds: float | None = 2.0
    budget_seconds: float | None = None
    # Of a peer that was just started, before its first case.
    warmup_seconds: float = 0.0


class Reporter(Protocol):
    """What is told about a run while it goes on."""

    def case_begins(self, case: CaseResult, turns: int) -> None: ...
    def turn_ends(self, peer: str) -> None: ...
    def case_ends(self, case: CaseResult) -> None: ...


class Plan(NamedTuple):
    work: Work
    case: Case
    peers: tuple[str, ...]

    def sampled_seconds(self, rounds: int) -> float:
        """With a second for a sample, or more where the case wants longer ones."""
        return len(self.peers) * self.turns(rounds) * self.case.seconds_factor

    def least_seconds(self, rounds: int) -> float:
        return self.extra_seconds + len(self.peers) * self.turns(rounds) * SECONDS_MIN

    def turns(self, rounds: int) -> int:
        return self.case.warmups + (self.case.rounds or rounds)

    @property
    def extra_seconds(self) -> float:
        return len(self.peers) * self.case.extra_seconds


class Runner:
    def __init__(self, settings: Settings, reporter: Reporter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._reporter = reporter
        self._clock = clock
        self._began = clock()

    def run(self, plans: Sequence[Plan]) -> Iterable[CaseResult]:
        """Yields every case when it is done, so that its results can be kept."""
        shared = Pool(warm_up=self._warm_up)
        pool = shared
        pool_of: Work | None = None
        try:
            for index, plan in enumerate(plans):
                if plan.work is not pool_of:
                    if pool is not shared:
                        pool.close()
                    pool_of = plan.work
                    pool = self._own_pool(pool_of) if pool_of.own_peers else shared
                    if pool is not shared:
                        shared.pause_all()
                yield self._run_case(plan, pool, self._share(plans[index:]))
        finally:
            pool.close()
            shared.close()

    def _own_pool(self, work: Work) -> Pool:
        return Pool(work.peer_settings, self._warm_up, pauses=work.pauses_peers)

    def _warm_up(self, peer: Peer) -> None:
        if self._settings.warmup_seconds:
            warm_up(peer, self._settings.warmup_seconds)

    def _share(self, plans: Sequence[Plan]) -> float | None:
        """The seconds that the first of these may take, so that all of them fit into what is left of the budget.

        Fixed costs come off first, the rest is for samples. It gets what the shortest samples need, even if others
        will then be left out: they come in the order of their importance.
        """
        if self._settings.budget_seconds is None:
            return None
        left = self._began + self._settings.budget_seconds - self._clock()
        rounds = self._settings.rounds
        weights = [plan.sampled_seconds(rounds) for plan in plans]
        for_samples = left - sum(plan.extra_seconds for plan in plans)
        share = plans[0].extra_seconds + for_samples * weights[0] / sum(weights)
        return min(left, max(share, plans[0].least_seconds(rounds)))

    def _run_case(self, plan: Plan, pool: Pool, share: float | None) -> CaseResult:
        case = plan.case
        result = CaseResult(plan.work.name, case.name, case.headline, dict(case.params))
        result.runs = {peer: Run() for peer in plan.peers}
        turns = plan.turns(self._settings.rounds)
        self._reporter.case_begins(result, turns * len(plan.peers))
        began = self._clock()
        if share is not None and share < plan.least_seconds(self._settings.rounds) * _TOO_LITTLE:
            needed = plan.least_seconds(self._settings.rounds)
            result.skipped = f"the time budget leaves it {max(share, 0):.0f} s, and it needs about {needed:.0f} s"
        else:
            self._run_turns(plan, pool, result, turns, share)
        result.seconds = self._clock() - began
        self._reporter.case_ends(result)
        return result

    def _run_turns(self, plan: Plan, pool: Pool, result: CaseResult, turns: int, share: float | None) -> None:
        case = plan.case
        seconds = self._seconds(plan, turns, share)
        peers: dict[str, Peer] = {}
        for name in plan.peers:
            with _Failure(result.runs[name]):
                peers[name] = pool.get(name, started=not case.starts_peers)
        # The peers that start here serve later cases too: the time for it is not taken from this one's rounds.
        deadline = None if share is None else self._clock() + share
        prepared: dict[str, Peer] = {}
        try:
            for name, peer in peers.items():
                with _Failure(result.runs[name]):
                    prepared[name] = peer
                    pool.leave_alone(name)
                    case.prepare(peer, seconds)
                    peer.settle()
            for turn in range(turns):
                # One counted round at least, whatever the time.
                if deadline is not None and turn > case.warmups and self._clock() > deadline:
                    break
                self._round(case, pool, prepared, result, turn, seconds)
        finally:
            for name, peer in prepared.items():
                with _Failure(result.runs[name]):
                    pool.leave_alone(name)
                    case.finish(peer)
                    peer.settle()

    def _round(
        self, case: Case, pool: Pool, peers: dict[str, Peer], result: CaseResult, turn: int, seconds: float
    ) -> None:
        names = [name for name in peers if result.runs[name].error is None]
        # Who begins changes, so that nobody always has the same neighbour.
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            run = result.runs[name]
            with _Failure(run):
                pool.leave_alone(name)
                sample = case.measure(peers[name], turn, seconds)
                peers[name].settle()
                if turn >= case.warmups:
                    run.samples.append(sample)
            self._reporter.turn_ends(name)

    def _seconds(self, plan: Plan, turns: int, share: float | None) -> float:
        if self._settings.seconds is not None:
            return self._settings.seconds
        assert share is not None, "without a budget the seconds of a sample must be given"
        seconds = (share - plan.extra_seconds) / (turns * len(plan.peers))
        return min(SECONDS_MAX * plan.case.seconds_factor, max(SECONDS_MIN, seconds))


class _Failure:
    """Keeps an exception in the peer's run, in one line, and lets the rest go on."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        if self._run.error is None:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = (str(error) or repr(error)).strip().replace("\n", " ")[:900]
            self._run.error = f"{type(error).__name__}: {text} ({where.name})"
        return True


def plan(works: Iterable[tuple[Work, Sequence[Case]]], peers: frozenset[str] | None) -> list[Plan]:
    """The cases of the works with those of their peers that are wanted; a case without any is left out."""
    plans = []
    for work, cases in works:
        for case in cases:
            names = tuple(name for name in case.peers if peers is None or name in peers)
            if names:
                plans.append(Plan(work, case, names))
    return plans
