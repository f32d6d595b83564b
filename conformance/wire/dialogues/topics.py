"""The life of topics and what is told of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.wire.dialogues.common import UNKNOWN_ID, near
from conformance.wire.good_requests import D
from conformance.wire.state import MIXED, PLAIN
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


def topic_life(talk: Talk, version: int) -> None:
    """Create in one request what can and what cannot be; grow, describe, delete by name and by id."""
    api = D.create_topics
    good, bad = talk.fresh("topic"), talk.fresh("topic")

    def new(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> Any:
        items = [api.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        return api.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=items)

    def create(label: str, *topics: Any, validate_only: bool = False) -> None:
        request = api.CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)
        talk.say(request, version, label)

    create("only try", new(good, 3), validate_only=True)
    create("two", new(good, 3), new(bad, 0))
    talk.await_topic(good, 3)
    create("again", new(good))
    create("twice in one", new(bad), new(bad))
    create("defaults", new(talk.fresh("topic"), -1, -1))
    create("a bad config", new(bad, retention_ms="soon"))
    create("an unknown config", new(bad, no_such="1"))
    create("a config out of bounds", new(bad, segment_bytes="3"))
    create("three replicas", new(bad, 1, 3))
    create("a name that collides", new(talk.fresh("a.b")), new("w-pl_ain.x"), new("w-pl.ain_x"))
    create("a reserved name", new("__cluster_metadata"), new("__consumer_offsets"))
    impossible = ("", ".", "..", "x" * 250, "a/b", "../x", "nul\0", "\u00e9")
    create("row 62: names that cannot be", *(new(name) for name in impossible))
    create("row 63: no replicas", new(bad, 1, 0))
    both = new(bad, 1)
    both.assignments = [api.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    create("row 63: a number and an assignment", both)
    placements: dict[str, list[tuple[int, list[int]]]] = {
        "assigned": [(0, [1]), (1, [1])],
        "assigned with a gap": [(0, [1]), (2, [1])],
        "assigned to a broker that is absent": [(0, [9])],
        "assigned twice to one broker": [(0, [1, 1])],
        "assigned to nobody": [(0, [])],
        "assigned twice": [(0, [1]), (0, [1])],
    }
    for label, placed in placements.items():
        parts = [api.CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in placed]
        topic = api.CreatableTopic(
            name=talk.fresh("topic"), num_partitions=-1, replication_factor=-1, assignments=parts
        )
        create(label, topic)
    grow = D.create_partitions
    grow_version = near(ApiKey.CREATE_PARTITIONS, version)
    for label, name, count, assignments in (
        ("grow", good, 4, None),
        ("grow to as many", good, 4, None),
        ("shrink", good, 2, None),
        ("grow what is absent", bad, 2, None),
        ("grow by one with two assignments", good, 5, [[1], [1]]),
        ("grow onto a broker that is absent", good, 5, [[7]]),
        ("grow an internal topic", "__consumer_offsets", 4, None),
    ):
        given = assignments and [grow.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        topic = grow.CreatePartitionsTopic(name=name, count=count, assignments=given)
        # Growth of an internal topic would move its groups: it is only tried.
        request = grow.CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=name.startswith("__"))
        talk.say(request, grow_version, label)
    talk.await_topic(good, 4)
    delete = D.delete_topics
    for label, name in (("delete", good), ("delete again", good), ("delete what never was", bad)):
        states = [delete.DeleteTopicState(name=name)]
        request = delete.DeleteTopicsRequest(topics=states, topic_names=[name], timeout_ms=10_000)
        talk.say(request, near(ApiKey.DELETE_TOPICS, version), label)
        talk.await_absence(name)
    other = talk.create_topic(talk.fresh("topic"))
    by_id = partial(delete.DeleteTopicState, name=None)
    for label, states in {
        "an id that is unknown": [by_id(topic_id=UNKNOWN_ID)],
        "neither name nor id": [by_id()],
        "name and id": [delete.DeleteTopicState(name=other, topic_id=talk.topic_id(other))],
        "the same by name and by id": [delete.DeleteTopicState(name=other), by_id(topic_id=talk.topic_id(other))],
        "by id": [by_id(topic_id=talk.topic_id(other))],
    }.items():
        talk.say(delete.DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6, f"delete, {label}")
    talk.await_absence(other)


def describe_topic_partitions(talk: Talk, version: int) -> None:
    api = D.describe_topic_partitions

    def ask(label: str, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        at = api.Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None
        topics = [api.TopicRequest(name=name) for name in names]
        request = api.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=at)
        talk.say(request, version, label)

    ask("one", PLAIN)
    ask("absent and illegal", "w-absent", "a/b", "")
    ask("limit 1", PLAIN, MIXED, limit=1)
    ask("limit 0", PLAIN, MIXED, limit=0)
    ask("from a cursor", PLAIN, MIXED, cursor=(PLAIN, 1))
    ask("from a cursor in the middle", PLAIN, MIXED, limit=1, cursor=(PLAIN, 1))
    ask("from a cursor past the end", PLAIN, MIXED, cursor=(PLAIN, 9))
    ask("from a cursor of an absent topic", PLAIN, MIXED, cursor=("w-n", 0))
    ask("from a negative cursor", PLAIN, cursor=(PLAIN, -1))


def metadata(talk: Talk, version: int) -> None:
    api = D.metadata

    def ask(label: str, *names: str, create: bool = False) -> None:
        topics = [api.MetadataRequestTopic(name=name) for name in names]
        talk.say(api.MetadataRequest(topics=topics, allow_auto_topic_creation=create), version, label)

    if version >= 4:
        ask("absent", "w-absent")
        ask("illegal", "a/b", "", ".", "x" * 250)
        created = talk.fresh("topic")
        ask("created by asking", created, create=True)
        talk.await_topic(created)
        ask("after it was created", created)
        ask("illegal and to be created", "a/b", create=True)
    ask("twice", PLAIN, PLAIN)
    ask("internal", "__consumer_offsets", "__transaction_state")
    if version >= 10:
        by_id = partial(api.MetadataRequestTopic, name=None)
        for label, topic_id in (("known", talk.topic_id(PLAIN)), ("unknown", UNKNOWN_ID), ("zero", bytes(16))):
            request = api.MetadataRequest(topics=[by_id(topic_id=topic_id)], allow_auto_topic_creation=False)
            talk.say(request, version, f"by an id that is {label}")
