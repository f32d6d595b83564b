"""Groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.dialogues.common import describe_group
from conformance.wire.good_requests import D
from conformance.wire.state import MIXED, PLAIN

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


def _beat(group: str, member: str, epoch: int, **options: Any) -> Any:
    return D.consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **options
    )


def _owned(talk: Talk, *partitions: int) -> Any:
    return [D.consumer_group_heartbeat.TopicPartitions(topic_id=talk.topic_id(PLAIN), partitions=list(partitions))]


def _describe_consumer(talk: Talk, group: str, label: str) -> None:
    request = D.consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group])
    talk.say(request, 1, label)


def consumer_group(talk: Talk, version: int) -> None:
    """KIP-848: join, second member, reconciliation, wrong epochs, commit, leave."""
    group, one, two = talk.fresh("group"), "CCCCCCCCCCCCCCCCCCCCCC", "DDDDDDDDDDDDDDDDDDDDDD"
    full: dict[str, Any] = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [PLAIN], "topic_partitions": []}
    talk.say(_beat(group, "", 0, **full), version, "join without an id")
    group = talk.fresh("group")
    talk.say(_beat(group, one, 1, **full), version, "heartbeat of a group that is absent")
    talk.say(_beat(group, one, 0, **full | {"rebalance_timeout_ms": -1}), version, "join without timeout")
    talk.say(_beat(group, one, 0, **full | {"topic_partitions": None}), version, "join without owned")
    talk.say(_beat(group, one, 0, **full | {"topic_partitions": _owned(talk, 0)}), version, "join with owned")
    talk.say(_beat(group, one, 0, **full | {"server_assignor": "nope"}), version, "join with an unknown assignor")
    talk.say(_beat(group, one, 0, **full), version, "join")
    talk.say(_beat(group, one, 1, topic_partitions=_owned(talk, 0, 1)), version, "owns all")
    talk.say(_beat(group, one, 1), version, "heartbeat")
    talk.say(_beat(group, one, 7), version, "heartbeat of a later epoch")
    talk.say(_beat(group, "nobody", 1), version, "heartbeat of nobody")
    _describe_consumer(talk, group, "describe one")
    talk.say(_beat(group, two, 0, **full), version, "second joins")
    _describe_consumer(talk, group, "describe two")
    talk.say(_beat(group, one, 1), version, "first is asked to give one up")
    talk.say(_beat(group, one, 1, topic_partitions=_owned(talk, 0)), version, "first gave up 1")
    talk.say(_beat(group, one, 1, topic_partitions=_owned(talk, 1)), version, "first gave up 0")
    talk.say(_beat(group, two, 2), version, "second's heartbeat")
    talk.say(_beat(group, two, 2, subscribed_topic_names=[PLAIN, MIXED]), version, "second wants more")
    talk.say(_beat(group, two, 2), version, "second's heartbeat in the new epoch")
    talk.say(_beat(group, two, 3), version, "second's heartbeat in epoch 3")
    _describe_consumer(talk, group, "describe three epochs")
    for label, epoch in (("right", 2), ("right later", 3), ("early", 1), ("late", 9)):
        partition = D.offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topic = D.offset_commit.OffsetCommitRequestTopic(
            name=PLAIN, topic_id=talk.topic_id(PLAIN), partitions=[partition]
        )
        commit = D.offset_commit.OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=epoch, member_id=two, topics=[topic]
        )
        talk.say(commit, 9, f"commit in the {label} epoch")
    talk.say(state.join_request(group), 5, "a classic member joins")
    talk.say(_beat(group, one, -1), version, "first leaves")
    talk.say(_beat(group, one, 2), version, "first after it left")
    talk.say(_beat(group, two, -2), version, "second leaves as static, which it is not")
    talk.say(_beat(group, two, -1), version, "second leaves")
    _describe_consumer(talk, group, "describe empty")
    describe_group(talk, group, "describe as classic")
    talk.say(D.delete_groups.DeleteGroupsRequest(groups_names=[group]), 2, "delete")
    if version >= 1:
        regex = {"rebalance_timeout_ms": 5000, "topic_partitions": []}
        group = talk.fresh("group")
        talk.say(_beat(group, one, 0, subscribed_topic_regex="w-pl.*", **regex), version, "join by pattern")
        talk.say(_beat(group, one, -1), version, "leave what was joined by pattern")
        talk.say(_beat(talk.fresh("group"), one, 0, subscribed_topic_regex="(", **regex), version, "a bad pattern")
        group = talk.fresh("group")
        slow = _beat(group, one, 0, subscribed_topic_regex="(a+)+$", **regex)
        talk.say(slow, version, "row 68: a pattern that takes other engines exponential time")
        talk.say(_beat(group, one, -1), version, "leave that pattern")


def static_consumer(talk: Talk, version: int) -> None:
    group, one, two = talk.fresh("group"), "EEEEEEEEEEEEEEEEEEEEEE", "FFFFFFFFFFFFFFFFFFFFFF"
    full: dict[str, Any] = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [PLAIN], "topic_partitions": []}
    talk.say(_beat(group, one, 0, instance_id="i-1", **full), version, "join")
    talk.say(_beat(group, two, 0, instance_id="i-1", **full), version, "join while it is there")
    talk.say(_beat(group, one, -2, instance_id="i-1"), version, "leave for a while")
    _describe_consumer(talk, group, "describe while away")
    talk.say(_beat(group, two, 0, instance_id="i-1", **full), version, "come back as another")
    talk.say(_beat(group, one, 1, instance_id="i-1"), version, "the former's heartbeat")
    _describe_consumer(talk, group, "describe back")
    talk.say(_beat(group, two, -1, instance_id="i-1"), version, "leave for good")
