from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.metadata.image import BrokerImage
from oncelog.broker.metadata.plans.placement import place_replicas
from oncelog.protocol.errors import ErrorCode, KafkaError


def brokers(count: int, rack_count: int = 0) -> list[BrokerImage]:
    return [BrokerImage(n, f"r{n % rack_count}" if rack_count else None, {}) for n in range(count)]


@given(st.integers(1, 7), st.integers(0, 3), st.integers(1, 60), st.integers(0, 100), st.data())
def test_replicas_are_distinct_and_leaders_even(
    count: int, rack_count: int, partition_count: int, start: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, count))
    placed = place_replicas(brokers(count, rack_count), partition_count, factor, start)
    assert len(placed) == partition_count
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.get(n, 0) for n in range(count)) <= 1


@given(st.integers(2, 3), st.integers(1, 40), st.integers(0, 100))
def test_replicas_spread_over_racks(rack_count: int, partition_count: int, start: int) -> None:
    placed = place_replicas(brokers(6, rack_count), partition_count, rack_count, start)
    assert all(len({broker % rack_count for broker in replicas}) == rack_count for replicas in placed)


def test_followers_of_one_leader_vary() -> None:
    placed = place_replicas(brokers(4), 12, 2, 0)
    assert {replicas[1] for replicas in placed if replicas[0] == 0} == {1, 2, 3}


def test_one_broker_shares_one_assignment() -> None:
    placed = place_replicas(brokers(1), 10_000, 1, 12345)
    assert all(replicas is placed[0] for replicas in placed)


@pytest.mark.parametrize(("count", "factor"), [(0, 1), (1, 2), (3, 0), (3, -5)])
def test_an_impossible_factor(count: int, factor: int) -> None:
    with pytest.raises(KafkaError) as caught:
        place_replicas(brokers(count), 1, factor, 0)
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
