from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.metadata import keys
from oncelog.broker.metadata.features import INITIAL_LEVELS
from oncelog.broker.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, PartitionImage
from oncelog.broker.metadata.store import Entry, Event, MetadataStoreError, Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

ID_A, ID_B = b"a" * 16, b"b" * 16


def topic(topic_id: bytes, *replicas: tuple[int, ...], **configs: str) -> bytes:
    return keys.encode_topic(keys.TopicRecord(topic_id, replicas, configs))


def state(leader: int, isr: tuple[int, ...]) -> bytes:
    return keys.encode_partition(keys.PartitionState(leader, 3, isr, 4))


class TestTopics:
    def test_a_new_topic_has_the_default_state(self) -> None:
        image = EMPTY_IMAGE.apply([Event("/topics/t", topic(ID_A, (1, 2), (2, 1), k="v"), 5)])
        found = image.topic("t")
        assert found is not None
        assert found is image.topic_by_id(ID_A)
        assert found.id == ID_A
        assert found.configs == {"k": "v"}
        assert not found.internal
        assert found.partitions == (
            PartitionImage(0, (1, 2), (1, 2), 1, 0, 0),
            PartitionImage(1, (2, 1), (2, 1), 2, 0, 0),
        )
        assert image.revision == 5
        assert image.revision_of("/topics/t") == 5
        assert image.partition_count == 2

    def test_a_partition_state_changes_its_partition_alone(self) -> None:
        before = EMPTY_IMAGE.apply(
            [
                Event("/topics/t", topic(ID_A, (1, 2), (2, 1)), 1),
                Event("/topics/u", topic(ID_B, (1,)), 1),
            ]
        )
        after = before.apply([Event(keys.partition_key(ID_A, 1), state(1, (1,)), 2)])
        assert after.topics["t"].partitions[1] == PartitionImage(1, (2, 1), (1,), 1, 3, 4)
        assert after.topics["t"].partitions[0] is before.topics["t"].partitions[0]
        assert after.topics["u"] is before.topics["u"]
        assert before.topics["t"].partitions[1].leader == 2
        undone = after.apply([Event(keys.partition_key(ID_A, 1), None, 3)])
        assert undone.topics == before.topics

    def test_a_topic_that_comes_back_is_another_one(self) -> None:
        image = EMPTY_IMAGE.apply(
            [
                Event("/topics/t", topic(ID_A, (1,)), 1),
                Event(keys.partition_key(ID_A, 0), state(-1, ()), 2),
            ]
        )
        image = image.apply(
            [
                Event("/topics/t", None, 3),
                Event(keys.partition_key(ID_A, 0), None, 3),
                Event("/topics/t", topic(ID_B, (1,)), 4),
            ]
        )
        assert image.topic_by_id(ID_A) is None
        found = image.topic_by_id(ID_B)
        assert found is not None
        assert found.partitions[0].leader == 1

    @pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
    def test_internal_topics(self, name: str) -> None:
        image = EMPTY_IMAGE.apply([Event(f"/topics/{name}", topic(ID_A, (1,)), 1)])
        assert image.topics[name].internal

    def test_ten_thousand_partitions_are_one_event(self) -> None:
        value = topic(ID_A, *[(1,)] * 10_000)
        image = EMPTY_IMAGE.apply([Event("/topics/t", value, 1)])
        assert image.partition_count == 10_000


def test_the_empty_image() -> None:
    assert EMPTY_IMAGE.controller_id == -1
    assert EMPTY_IMAGE.topic("t") is None
    assert EMPTY_IMAGE.topic_by_id(ID_A) is None
    assert EMPTY_IMAGE.features.levels == INITIAL_LEVELS
    assert EMPTY_IMAGE.revision_of("/topics/t") == 0


def test_everything_else() -> None:
    image = EMPTY_IMAGE.apply(
        [
            Event("/cluster", keys.encode_cluster("c"), 1),
            Event("/brokers/2", keys.encode_broker("r", {"PLAINTEXT": ("h", 9092)}), 1),
            Event("/brokers/1", keys.encode_broker(None, {}), 1),
            Event("/features", keys.encode_levels({"metadata.version": 29}), 2),
            Event("/producer_ids", keys.encode_producer_ids(3000), 2),
            Event("/configs/broker/default", keys.encode_configs({"a": "1"}), 2),
            Event("/configs/broker/7", keys.encode_configs({"b": "2"}), 2),
            Event(keys.group_configs_key("g/ü"), keys.encode_configs({"c": "3"}), 2),
            Event("/quotas/client-id=x,user", keys.encode_quotas({"producer_byte_rate": 5.0}), 2),
            Event("/of/a/later/version", b"?", 3),
        ]
    )
    assert image.cluster_id == "c"
    assert image.brokers[2] == BrokerImage(2, "r", {"PLAINTEXT": ("h", 9092)})
    assert image.controller_id == 1
    assert image.features.levels == {"metadata.version": 29}
    assert image.features.epoch == 2
    assert image.producer_id_next == 3000
    assert image.broker_configs == {"": {"a": "1"}, "7": {"b": "2"}}
    assert image.group_configs == {"g/ü": {"c": "3"}}
    assert image.quotas == {(("client-id", "x"), ("user", None)): {"producer_byte_rate": 5.0}}
    assert image.revision == 3
    assert image.revision_of("/of/a/later/version") == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("/topics/t", b"{"),
        ("/topics/t", b"{}"),
        ("/topics/t", b"[]"),
        ("/topics/t", b'{"id":"zz","replicas":[],"configs":{}}'),
        ("/topics/t", b'{"id":"00","replicas":[[1,[]]],"configs":{}}'),
        ("/brokers/x", keys.encode_broker(None, {})),
        ("/partitions/zz/1", state(1, ())),
        ("/configs/broker/1", b'{"a":1}'),
        ("/cluster", b"\xff"),
    ],
)
def test_an_unreadable_value_is_one_clear_line(key: str, value: bytes) -> None:
    with pytest.raises(MetadataStoreError, match=f"unreadable value at {key}") as caught:
        EMPTY_IMAGE.apply([Event(key, value, 1)])
    assert "\n" not in str(caught.value)


REPLICAS = st.lists(st.sampled_from([(1,), (2,), (1, 2), (2, 1)]), min_size=1, max_size=3)
WRITES = st.one_of(
    st.tuples(
        st.sampled_from(["/topics/t", "/topics/u"]),
        st.none() | st.builds(lambda i, r: topic(i, *r), st.sampled_from([ID_A, ID_B]), REPLICAS),
    ),
    st.tuples(
        st.builds(keys.partition_key, st.sampled_from([ID_A, ID_B]), st.integers(0, 3)),
        st.none() | st.builds(state, st.integers(-1, 2), st.sampled_from([(), (1,), (2, 1)])),
    ),
    st.tuples(
        st.sampled_from(["/brokers/1", "/brokers/2"]),
        st.none() | st.just(keys.encode_broker("r", {"L": ("h", 1)})),
    ),
    st.tuples(
        st.sampled_from(["/configs/broker/default", "/configs/broker/1", "/configs/group/g"]),
        st.none() | st.builds(lambda v: keys.encode_configs({"k": v}), st.sampled_from("xy")),
    ),
    st.tuples(
        st.sampled_from(["/quotas/user", "/quotas/user=u"]),
        st.none() | st.builds(lambda v: keys.encode_quotas({"k": v}), st.sampled_from([1.0, 2.0])),
    ),
    st.tuples(st.just("/features"), st.none() | st.just(keys.encode_levels({"group.version": 1}))),
    st.tuples(st.just("/producer_ids"), st.none() | st.builds(keys.encode_producer_ids, st.integers(0, 9))),
    st.tuples(st.just("/cluster"), st.none() | st.just(keys.encode_cluster("c"))),
)


def one_topic_per_id(entries: dict[str, Entry]) -> bool:
    ids = [keys.decode_topic(e.value).id for key, e in entries.items() if key.startswith(keys.TOPICS)]
    return len(set(ids)) == len(ids)


@given(st.lists(st.lists(WRITES, max_size=4, unique_by=lambda write: write[0]), max_size=12))
def test_applying_changes_equals_listing_the_store(
    transactions: Sequence[Sequence[tuple[str, bytes | None]]],
) -> None:
    image = EMPTY_IMAGE
    entries: dict[str, Entry] = {}
    revision = 0
    for writes in transactions:
        next_entries = dict(entries)
        events = []
        for key, value in writes:
            if value is not None:
                next_entries[key] = Entry(key, value, revision + 1)
                events.append(Event(key, value, revision + 1))
            elif next_entries.pop(key, None) is not None:
                events.append(Event(key, None, revision + 1))
        # Topic ids are random, so two topics never have the same.
        if not events or not one_topic_per_id(next_entries):
            continue
        entries, revision = next_entries, revision + 1
        image = image.apply(events)
        snapshot = Snapshot([entries[key] for key in sorted(entries)], revision)
        assert image == MetadataImage.from_snapshot(snapshot)
