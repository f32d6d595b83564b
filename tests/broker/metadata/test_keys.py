from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.metadata import keys

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
CONFIGS = st.dictionaries(TEXT, TEXT, max_size=4)


@given(TEXT.filter(bool))
def test_group_names_pass_through_their_keys(name: str) -> None:
    key = keys.group_configs_key(name)
    assert key.isascii()
    assert "/" not in key.removeprefix(keys.GROUP_CONFIGS)
    assert keys.parse_group_configs_key(key) == name


@given(st.dictionaries(st.sampled_from(["user", "client-id", "ip"]), st.none() | TEXT, min_size=1))
def test_quota_entities_pass_through_their_keys(names: dict[str, str | None]) -> None:
    entity = tuple(sorted(names.items(), key=lambda pair: pair[0]))
    assert keys.parse_quota_key(keys.quota_key(entity)) == entity


@given(TEXT)
def test_user_names_pass_through_their_keys(name: str) -> None:
    key = keys.user_key(name)
    assert key.isascii()
    assert "/" not in key.removeprefix(keys.USERS)
    assert keys.parse_user_key(key) == name


@pytest.mark.parametrize("name", ["", "0", "17"])
def test_broker_names_pass_through_their_keys(name: str) -> None:
    assert keys.parse_broker_configs_key(keys.broker_configs_key(name)) == name


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1))
def test_partitions_pass_through_their_keys(topic_id: bytes, partition: int) -> None:
    assert keys.parse_partition_key(keys.partition_key(topic_id, partition)) == (topic_id, partition)


@given(
    st.binary(min_size=16, max_size=16),
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple), min_size=1),
    CONFIGS,
)
def test_topics(topic_id: bytes, replicas: list[tuple[int, ...]], configs: dict[str, str]) -> None:
    record = keys.TopicRecord(topic_id, replicas, configs)
    assert keys.decode_topic(keys.encode_topic(record)) == record


@given(st.lists(st.integers(0, 5), max_size=3).map(tuple))
def test_partitions(isr: tuple[int, ...]) -> None:
    state = keys.PartitionState(-1, 7, isr, 9)
    assert keys.decode_partition(keys.encode_partition(state)) == state


@given(CONFIGS)
def test_configs(configs: dict[str, str]) -> None:
    assert keys.decode_configs(keys.encode_configs(configs)) == configs


@given(st.none() | TEXT, st.dictionaries(TEXT, st.tuples(TEXT, st.integers(0, 65535)), max_size=3))
def test_brokers(rack: str | None, listeners: dict[str, tuple[str, int]]) -> None:
    assert keys.decode_broker(keys.encode_broker(rack, listeners)) == (rack, listeners)


@given(st.dictionaries(TEXT, st.floats(0, allow_infinity=False, allow_nan=False), max_size=3))
def test_quotas(quotas: dict[str, float]) -> None:
    assert keys.decode_quotas(keys.encode_quotas(quotas)) == quotas


@given(
    st.dictionaries(
        st.sampled_from(keys.ScramMechanism),
        st.builds(keys.ScramCredential, st.integers(4096, 16384), st.binary(), st.binary(), st.binary()),
    )
)
def test_users(credentials: dict[keys.ScramMechanism, keys.ScramCredential]) -> None:
    assert keys.decode_user(keys.encode_user(credentials)) == credentials


def test_ten_thousand_partitions_on_one_broker_are_a_short_value() -> None:
    record = keys.TopicRecord(bytes(16), [(1,)] * 10_000, {})
    assert len(keys.encode_topic(record)) < 100
