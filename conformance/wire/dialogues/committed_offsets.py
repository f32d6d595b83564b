"""Committed offsets without members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.dialogues.common import UNKNOWN_ID, describe_group, near, say_offsets
from conformance.wire.good_requests import D
from conformance.wire.state import PLAIN
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


def _commit(talk: Talk, group: str, offset: int, **options: Any) -> Any:
    api = D.offset_commit
    topic = options.get("topic", PLAIN)
    partition = api.OffsetCommitRequestPartition(
        partition_index=options.get("partition", 0),
        committed_offset=offset,
        committed_leader_epoch=options.get("epoch", -1),
        committed_metadata=options.get("metadata"),
    )
    topics = [
        api.OffsetCommitRequestTopic(
            name=topic, topic_id=talk.kept.get(f"id of {topic}", UNKNOWN_ID), partitions=[partition]
        )
    ]
    return api.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=options.get("generation", -1),
        member_id=options.get("member", ""),
        retention_time_ms=-1,
        topics=topics,
    )


def offset_fetch_order(talk: Talk, version: int) -> None:
    """Topics are answered in the order in which they were named; those that do not exist, last, if asked for by id."""
    api = D.offset_fetch
    group, topics = talk.fresh("group"), [talk.create_topic(talk.fresh("topic"), partitions=3) for _ in range(2)]
    for topic in topics:
        for partition in range(3):
            talk.ask(_commit(talk, group, 7, topic=topic, partition=partition), 9)
    first, second = topics
    for label, wanted in {
        "backwards": [(second, [2, 0]), (first, [1, 0])],
        "an absent one first": [("w-absent", [0]), (second, [0]), (first, [9, 0])],
        "an absent one between": [(first, [0]), ("w-absent", [1, 0]), (second, [0])],
        "twice": [(first, [0]), (second, [0]), (first, [1])],
    }.items():
        named = [api.OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in wanted]
        in_group = [
            api.OffsetFetchRequestTopics(
                name=name, topic_id=talk.kept.get(f"id of {name}", UNKNOWN_ID), partition_indexes=indexes
            )
            for name, indexes in wanted
        ]
        groups = [api.OffsetFetchRequestGroup(group_id=group, topics=in_group)]
        talk.say(api.OffsetFetchRequest(group_id=group, topics=named, groups=groups), version, label)


def offsets(talk: Talk, version: int) -> None:
    """Commit and fetch without members; metadata at its limit; generations of nobody; deletion."""
    group = talk.fresh("group")
    fetch_version = near(ApiKey.OFFSET_FETCH, version)
    say_offsets(talk, group, "before", fetch_version)
    talk.say(_commit(talk, group, 3, epoch=0, metadata="m"), version, "commit")
    talk.say(_commit(talk, group, 4, partition=1, metadata="x" * 4096), version, "metadata of 4096")
    talk.say(_commit(talk, group, 4, partition=1, metadata="x" * 4097), version, "metadata of 4097")
    talk.say(_commit(talk, group, 4, topic="w-absent"), version, "commit for an absent topic")
    talk.say(_commit(talk, group, 4, partition=99), version, "commit for an absent partition")
    talk.say(_commit(talk, group, 4, generation=3, member="nobody"), version, "commit of nobody")
    talk.say(_commit(talk, group, 4, generation=0), version, "commit of a generation without a member")
    talk.say(_commit(talk, "", 4), version, "commit of the group without a name")
    say_offsets(talk, group, "after", fetch_version)
    talk.say(_commit(talk, state.CLASSIC, 4), version, "commit past the members of a group")
    api = D.offset_delete
    partitions = [api.OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9)]
    topics = [api.OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in (PLAIN, "w-absent")]
    talk.say(api.OffsetDeleteRequest(group_id=group, topics=topics), 0, "delete offsets")
    talk.say(api.OffsetDeleteRequest(group_id=state.CLASSIC, topics=topics), 0, "delete offsets that are in use")
    say_offsets(talk, group, "after deletion", fetch_version)
    describe_group(talk, group, "describe")
