from __future__ import annotations

import pytest

from oncelog.broker.metadata.controller import (
    MorePartitions,
    NewTopic,
    TopicLimits,
    TopicSelector,
    plan_create_partitions,
    plan_delete_topics,
)
from oncelog.broker.metadata.image import BrokerImage
from oncelog.broker.metadata.keys import PartitionState, encode_partition, partition_key
from oncelog.broker.metadata.plans.cluster import plan_register_broker
from oncelog.broker.metadata.store import Compare, Delete, Event
from oncelog.protocol.errors import ErrorCode
from tests.broker.metadata.images import LIMITS, applied, cluster, plan_topics, topic_id, with_topics

INT32_MAX = 2**31 - 1


class TestCreateTopics:
    def test_a_topic_is_one_write(self) -> None:
        image = cluster(3)
        plan = plan_topics(image, NewTopic("t", 10_000, 3, configs=[("retention.ms", "5")]))
        assert len(plan.writes) == 1
        assert plan.compares == [Compare("/topics/t", 0)]
        (result,) = plan.results
        assert result.outcome.code == ErrorCode.NONE
        assert result.outcome.message is None
        assert (result.topic_id, result.partition_count, result.replication_factor) == (
            topic_id("t"),
            10_000,
            3,
        )
        topic = applied(image, plan).topics["t"]
        assert len(topic.partitions) == 10_000
        assert topic.configs == result.configs == {"retention.ms": "5"}
        assert all(p.isr == p.replicas and p.leader == p.replicas[0] for p in topic.partitions)

    def test_no_topics(self) -> None:
        assert plan_topics(cluster()).results == []

    def test_defaults(self) -> None:
        limits = TopicLimits(default_partition_count=6, default_replication_factor=2)
        (result,) = plan_topics(cluster(2), NewTopic("t"), limits=limits).results
        assert (result.partition_count, result.replication_factor) == (6, 2)

    def test_a_manual_assignment(self) -> None:
        image = cluster(3)
        image = with_topics(image, NewTopic("t", assignments=[(1, [3, 1]), (0, [2, 3])]))
        assert [p.replicas for p in image.topics["t"].partitions] == [(2, 3), (3, 1)]

    def test_validate_only_writes_nothing(self) -> None:
        plan = plan_topics(cluster(), NewTopic("t", 3), NewTopic("u", 0), validate_only=True)
        assert plan.writes == []
        assert [r.outcome.code for r in plan.results] == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]
        assert plan.results[0].partition_count == 3

    @pytest.mark.parametrize(
        ("topic", "code"),
        [
            (NewTopic(""), 17),
            (NewTopic("."), 17),
            (NewTopic(".."), 17),
            (NewTopic("x" * 250), 17),
            (NewTopic("a/b"), 17),
            (NewTopic("../x"), 17),
            (NewTopic("a\0"), 17),
            (NewTopic("a\n"), 17),
            (NewTopic("é"), 17),
            (NewTopic("²"), 17),
            (NewTopic("exists"), 36),
            (NewTopic("dots_and.lines"), 17),
            (NewTopic("__cluster_metadata"), 42),
            (NewTopic("t", 0), 37),
            (NewTopic("t", -2), 37),
            (NewTopic("t", 10_001), 44),
            (NewTopic("t", INT32_MAX), 44),
            (NewTopic("t", 1, 0), 38),
            (NewTopic("t", 1, -2), 38),
            (NewTopic("t", 1, 9), 38),
            (NewTopic("t", 1, assignments=[(0, [1])]), 42),
            (NewTopic("t", -1, 1, assignments=[(0, [1])]), 42),
            (NewTopic("t", assignments=[(0, [1]), (0, [1])]), 39),
            (NewTopic("t", assignments=[(1, [1])]), 39),
            (NewTopic("t", assignments=[(0, [])]), 39),
            (NewTopic("t", assignments=[(0, [7])]), 39),
            (NewTopic("t", assignments=[(0, [1, 1])]), 39),
            (NewTopic("t", assignments=[(0, [1]), (1, [1, 2])]), 39),
            (NewTopic("t", configs=[("bad", "1")]), 40),
            (NewTopic("t", configs=[("retention.ms", None)]), 40),
        ],
        ids=str,
    )
    def test_refusals(self, topic: NewTopic, code: int) -> None:
        image = with_topics(cluster(2), NewTopic("exists"), NewTopic("dots.and_lines"))
        plan = plan_topics(image, topic, NewTopic("good"))
        by_name = {result.name: result.outcome for result in plan.results}
        assert by_name[topic.name].code == code
        assert by_name[topic.name].message
        # A request with too many partitions is refused as a whole, as Kafka does.
        assert by_name["good"].code == (44 if code == 44 else 0)
        assert len(plan.writes) == (0 if code == 44 else 1)

    def test_a_name_of_249_characters(self) -> None:
        assert plan_topics(cluster(), NewTopic("x" * 249)).results[0].outcome.code == ErrorCode.NONE

    def test_a_name_twice_is_refused_once(self) -> None:
        plan = plan_topics(cluster(), NewTopic("t"), NewTopic("u"), NewTopic("t", 2))
        assert [(r.name, r.outcome.code) for r in plan.results] == [("t", 42), ("u", 0)]
        assert [write.key for write in plan.writes] == ["/topics/u"]

    def test_names_of_one_request_collide_too(self) -> None:
        plan = plan_topics(cluster(), NewTopic("a.b"), NewTopic("a_b"))
        assert [r.outcome.code for r in plan.results] == [0, 17]

    def test_partitions_of_one_request_add_up(self) -> None:
        topics = [NewTopic(f"t{n}", 5000) for n in range(2)]
        assert {r.outcome.code for r in plan_topics(cluster(), *topics).results} == {0}
        plan = plan_topics(cluster(), *topics, NewTopic("u"))
        assert {r.outcome.code for r in plan.results} == {ErrorCode.POLICY_VIOLATION}

    def test_partitions_of_the_cluster_add_up(self) -> None:
        limits = TopicLimits(partitions_max=10)
        image = with_topics(cluster(), NewTopic("t", 4))
        plan = plan_topics(image, NewTopic("u", 4), NewTopic("v", 3), NewTopic("w", 2), limits=limits)
        assert [r.outcome.code for r in plan.results] == [0, ErrorCode.POLICY_VIOLATION, 0]

    def test_without_brokers(self) -> None:
        (result,) = plan_topics(cluster(0), NewTopic("t")).results
        assert result.outcome.code == ErrorCode.INVALID_REPLICATION_FACTOR


class TestDeleteTopics:
    def test_by_name_and_by_id_with_partition_states(self) -> None:
        image = with_topics(cluster(), NewTopic("t", 2), NewTopic("u"), NewTopic("v"))
        key = partition_key(topic_id("t"), 1)
        image = image.apply([Event(key, encode_partition(PartitionState(-1, 1, (), 1)), image.revision + 1)])
        plan = plan_delete_topics(image, [TopicSelector("t"), TopicSelector(None, topic_id("u"))])
        assert [(r.name, r.topic_id, r.outcome.code) for r in plan.results] == [
            ("t", topic_id("t"), 0),
            ("u", topic_id("u"), 0),
        ]
        assert plan.writes == [Delete("/topics/t"), Delete(key), Delete("/topics/u")]
        after = applied(image, plan)
        assert set(after.topics) == {"v"}
        assert after.partition_states == {}

    def test_no_topics(self) -> None:
        assert plan_delete_topics(cluster(), []).results == []

    def test_internal_topics_can_go_as_in_kafka(self) -> None:
        image = with_topics(cluster(), NewTopic("__transaction_state"))
        (result,) = plan_delete_topics(image, [TopicSelector("__transaction_state")]).results
        assert result.outcome.code == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("selectors", "codes"),
        [
            ([TopicSelector("absent")], [3]),
            ([TopicSelector("../x")], [3]),
            ([TopicSelector(None, b"x" * 16)], [100]),
            ([TopicSelector(None)], [42]),
            ([TopicSelector("t", topic_id("t"))], [42]),
            ([TopicSelector("t"), TopicSelector("t")], [42]),
            ([TopicSelector(None, topic_id("t"))] * 2, [42]),
            ([TopicSelector("t"), TopicSelector(None, topic_id("t"))], [42]),
        ],
    )
    def test_refusals(self, selectors: list[TopicSelector], codes: list[int]) -> None:
        image = with_topics(cluster(), NewTopic("t"), NewTopic("u"))
        plan = plan_delete_topics(image, [*selectors, TopicSelector("u")])
        assert [r.outcome.code for r in plan.results] == [*codes, 0]
        assert plan.writes == [Delete("/topics/u")]


class TestCreatePartitions:
    def test_growth_keeps_what_is_there(self) -> None:
        image = with_topics(cluster(3), NewTopic("t", 2, 2, configs=[("k", "v")]))
        before = image.topics["t"]
        plan = plan_create_partitions(image, [MorePartitions("t", 5)], limits=LIMITS, placement_start=1)
        assert plan.compares == [Compare("/topics/t", image.revision_of("/topics/t"))]
        after = applied(image, plan).topics["t"]
        assert after.partitions[:2] == before.partitions
        assert [len(p.replicas) for p in after.partitions] == [2] * 5
        assert (after.id, after.configs) == (before.id, before.configs)

    def test_by_hand(self) -> None:
        image = with_topics(cluster(2), NewTopic("t", 1))
        plan = plan_create_partitions(image, [MorePartitions("t", 3, [[2], [1]])], limits=LIMITS, placement_start=0)
        assert [p.replicas for p in applied(image, plan).topics["t"].partitions][1:] == [(2,), (1,)]

    @pytest.mark.parametrize(
        ("wanted", "code"),
        [
            (MorePartitions("t", 3), 37),
            (MorePartitions("t", 2), 37),
            (MorePartitions("t", 0), 37),
            (MorePartitions("t", -1), 37),
            (MorePartitions("absent", 5), 3),
            (MorePartitions("t", 5, [[1]]), 39),
            (MorePartitions("t", 4, []), 39),
            (MorePartitions("t", 4, [[9]]), 39),
            (MorePartitions("t", 4, [[1, 2]]), 39),
            (MorePartitions("t", 4, [[]]), 39),
            (MorePartitions("t", 20_000), 44),
            (MorePartitions("t", INT32_MAX), 44),
            (MorePartitions("__transaction_state", 2), 37),
        ],
    )
    def test_refusals(self, wanted: MorePartitions, code: int) -> None:
        image = with_topics(cluster(2), NewTopic("t", 3), NewTopic("u"), NewTopic("__transaction_state"))
        plan = plan_create_partitions(image, [wanted, MorePartitions("u", 2)], limits=LIMITS, placement_start=0)
        assert [r.outcome.code for r in plan.results] == [code, 0]
        assert plan.results[0].outcome.message
        assert [write.key for write in plan.writes] == ["/topics/u"]

    def test_a_name_twice_is_refused_once(self) -> None:
        image = with_topics(cluster(), NewTopic("t"))
        wanted = [MorePartitions("t", 2), MorePartitions("t", 3)]
        plan = plan_create_partitions(image, wanted, limits=LIMITS, placement_start=0)
        assert [r.outcome.code for r in plan.results] == [42]
        assert plan.writes == []

    def test_too_few_brokers_are_left(self) -> None:
        image = with_topics(cluster(2), NewTopic("t", 1, 2))
        image = image.apply([Event("/brokers/2", None, image.revision + 1)])
        plan = plan_create_partitions(image, [MorePartitions("t", 2)], limits=LIMITS, placement_start=0)
        assert plan.results[0].outcome.code == ErrorCode.INVALID_REPLICATION_FACTOR

    def test_validate_only_writes_nothing(self) -> None:
        image = with_topics(cluster(), NewTopic("t"))
        plan = plan_create_partitions(
            image, [MorePartitions("t", 2)], limits=LIMITS, placement_start=0, validate_only=True
        )
        assert plan.results[0].outcome.code == ErrorCode.NONE
        assert plan.writes == []

    def test_the_limits_add_up(self) -> None:
        image = with_topics(cluster(), NewTopic("t"), NewTopic("u"), NewTopic("v"))
        wanted = [MorePartitions("t", 4), MorePartitions("u", 4), MorePartitions("v", 2)]
        for limits in (TopicLimits(partitions_per_request_max=5), TopicLimits(partitions_max=8)):
            plan = plan_create_partitions(image, wanted, limits=limits, placement_start=0)
            assert [r.outcome.code for r in plan.results] == [0, 44, 0]


def test_a_broker_that_registers_again_unchanged_writes_nothing() -> None:
    image = cluster()
    assert plan_register_broker(image, image.brokers[1]).writes == ()
    assert len(plan_register_broker(image, BrokerImage(1, "r", {})).writes) == 1
