"""Whether a run meets the goals."""

from __future__ import annotations

import pytest

from bench.goals import CACHE, FSYNC, GOALS, Goal, Verdict
from bench.results import Results
from tests.bench.results import produce, sample_results


def find(text: str, side: str) -> Goal:
    (goal,) = [goal for goal in GOALS if goal.text == text and goal.side == side]
    return goal


def judge(text: str, side: str, results: Results) -> Verdict:
    return find(text, side).judge(results)


def test_several_cases_of_a_goal_are_partly_met_while_some_miss_it() -> None:
    verdict = judge("produce throughput, 100 B", CACHE, sample_results())
    assert verdict.word == "partly met"
    assert verdict.value == pytest.approx((1.675, 1.35, 2.0))


def test_a_goal_is_met_when_all_cases_meet_it_and_missed_when_their_median_does() -> None:
    results = Results()
    results.put(produce(1000, 1, kafka=[100], oncelog=[151]))
    assert judge("produce throughput, 1 KB", CACHE, results).is_met
    results.put(produce(1000, 8, kafka=[100], oncelog=[120]))
    results.put(produce(1000, 64, kafka=[100], oncelog=[120]))
    assert judge("produce throughput, 1 KB", CACHE, results).word == "not met"


def test_what_was_not_measured_is_said_to_be_so() -> None:
    assert judge("idle RSS", FSYNC, sample_results()) == ("not measured", None)


def test_a_goal_may_want_less() -> None:
    assert judge("single produce latency, p50", CACHE, sample_results()).is_met
    assert judge("single produce latency, p50", FSYNC, sample_results()).is_met


def test_a_curve_is_flat_if_its_end_is_near_the_control() -> None:
    verdict = judge("cost per request as idle partitions grow to 10,000", CACHE, sample_results())
    assert verdict.is_met
    assert verdict.value == pytest.approx((1.1, 1.1, 1.1))


def test_absolute_goals() -> None:
    assert judge("10,000 partitions: start to ready", CACHE, sample_results()).word == "not met"
    assert judge("10,000 partitions: RSS", CACHE, sample_results()).is_met


def test_every_goal_has_a_name_and_a_side_of_its_own() -> None:
    assert len({(goal.text, goal.side) for goal in GOALS}) == len(GOALS)


def test_each_client_has_a_goal_of_its_own() -> None:
    one = "one-record transactions per second"
    results = sample_results()
    assert judge(f"{one}, confluent-kafka", CACHE, results) == ("not met", (2.5, 2.5, 2.5))
    assert judge(f"{one}, Java's client", CACHE, results) == ("met", (12.0, 12.0, 12.0))
    assert judge(f"{one}, Java's client", FSYNC, results).word == "not measured"


def test_the_floor_shows_what_is_within_reach_and_kfake_where_the_floor_cannot_serve() -> None:
    results = sample_results()
    produce_goal = find("produce throughput, 100 B", CACHE)
    assert produce_goal.reach is not None
    assert produce_goal.reach.peer == "floor"
    assert produce_goal.within_reach(results) == pytest.approx((2.8636, 2.7273, 3.0), abs=1e-3)
    assert not produce_goal.is_beyond_reach(results)
    with_confluent = find("one-record transactions per second, confluent-kafka", CACHE)
    assert with_confluent.reach is not None
    assert with_confluent.reach.peer == "kfake"
    assert with_confluent.is_beyond_reach(results)
    assert find("start to ready", CACHE).within_reach(results) is None
