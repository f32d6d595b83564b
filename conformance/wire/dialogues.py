"""Dialogues: several requests, each of which rests on the answers before it, in every version of the main API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.compare import Case
from conformance.wire.good_requests import D
from conformance.wire.state import MIXED, PLAIN, batch, produce_request
from oncelog.broker.handlers import APIS
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.records.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.wire.talk import Talk

INT32_MAX = 2**31 - 1
UNKNOWN_ID = b"\x05" * 16
ABSENT_SESSION = 12_345
EXPIRY_MS = 1000


def dialogue_cases() -> Iterator[Case]:
    for key, dialogue in (
        (ApiKey.JOIN_GROUP, _classic_group),
        (ApiKey.JOIN_GROUP, _two_classic_members),
        (ApiKey.JOIN_GROUP, _static_member),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, _consumer_group),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, _static_consumer),
        (ApiKey.OFFSET_COMMIT, _offsets),
        (ApiKey.PRODUCE, _sequences),
        (ApiKey.FETCH, _fetch_session),
        (ApiKey.FETCH, _fetch_offsets),
        (ApiKey.LIST_OFFSETS, _list_offsets),
        (ApiKey.INIT_PRODUCER_ID, _producer_ids),
        (ApiKey.END_TXN, _transactions),
        (ApiKey.END_TXN, _expired_transaction),
        (ApiKey.TXN_OFFSET_COMMIT, _transactional_offsets),
        (ApiKey.CREATE_TOPICS, _topic_life),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, _configs),
        (ApiKey.ALTER_CLIENT_QUOTAS, _quotas),
        (ApiKey.DELETE_RECORDS, _delete_records),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, _describe_topic_partitions),
        (ApiKey.LIST_TRANSACTIONS, _list_transactions),
        (ApiKey.LIST_GROUPS, _list_groups),
        (ApiKey.DESCRIBE_CONFIGS, _describe_configs),
        (ApiKey.METADATA, _metadata),
    ):
        api = APIS[key]
        for version in range(api.version_min, api.version_max + 1):
            yield Case(
                f"{dialogue.__name__.strip('_').replace('_', ' ')} v{version}", partial(_start, dialogue, version)
            )


def _start(dialogue: Callable[[Talk, int], None], version: int, talk: Talk) -> None:
    dialogue(talk, version)


def _near(api: ApiKey, version: int) -> int:
    """The version of another API to use beside version `version` of the main one."""
    known = APIS[api]
    return max(known.version_min, min(known.version_max, version))


def _sync(group: str, generation: int, member: str, **options: Any) -> Any:
    api = D.sync_group
    return api.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=options.get("instance"),
        protocol_type=options.get("protocol_type"),
        protocol_name=options.get("protocol_name"),
        assignments=[
            api.SyncGroupRequestAssignment(member_id=given, assignment=b"for " + str(index).encode())
            for index, given in enumerate(options.get("given", ()))
        ],
    )


def _join(talk: Talk, request: Any, version: int, label: str) -> Any:
    """Join; from v4 on the first answer gives an id to come back with (KIP-394)."""
    answer = talk.say(request, version, label)
    if answer is not None and answer.error_code == 79:
        request.member_id = answer.member_id
        answer = talk.say(request, version, f"{label} with the id given")
    return answer


def _describe(talk: Talk, group: str, label: str) -> None:
    talk.say(D.describe_groups.DescribeGroupsRequest(groups=[group], include_authorized_operations=True), 5, label)


def _classic_group(talk: Talk, version: int) -> None:
    """One member: join, sync, heartbeat, join again, wrong generations and ids, leave."""
    group = talk.fresh("group")
    sync_version, beat_version = _near(ApiKey.SYNC_GROUP, version), _near(ApiKey.HEARTBEAT, version)
    leave_version = _near(ApiKey.LEAVE_GROUP, version)
    _describe(talk, group, "describe before")
    joined = _join(talk, state.join_request(group, protocols=("range", "roundrobin")), version, "join")
    member, generation = joined.member_id, joined.generation_id
    _describe(talk, group, "describe joined")
    beat = partial(D.heartbeat.HeartbeatRequest, group_id=group)
    talk.say(beat(generation_id=generation, member_id=member), beat_version, "heartbeat before sync")
    talk.say(_sync(group, generation + 1, member, given=[member]), sync_version, "sync of another generation")
    talk.say(_sync(group, generation, "nobody", given=[member]), sync_version, "sync of nobody")
    other = _sync(group, generation, member, given=[member], protocol_type="connect", protocol_name="range")
    talk.say(other, sync_version, "sync of another type")
    mine = _sync(group, generation, member, given=[member], protocol_type="consumer", protocol_name="range")
    talk.say(mine, sync_version, "sync")
    talk.say(_sync(group, generation, member), sync_version, "sync again")
    talk.say(beat(generation_id=generation, member_id=member), beat_version, "heartbeat")
    talk.say(beat(generation_id=generation + 1, member_id=member), beat_version, "heartbeat of another generation")
    talk.say(beat(generation_id=generation, member_id="nobody"), beat_version, "heartbeat of nobody")
    _describe(talk, group, "describe stable")
    talk.say(state.join_request(group, "nobody"), version, "join as nobody")
    talk.say(state.join_request(group, protocols=("other",)), version, "join with another protocol")
    talk.say(state.join_request(group, protocol_type="connect"), version, "join with another type")
    talk.say(D.delete_groups.DeleteGroupsRequest(groups_names=[group]), 2, "delete a group with members")
    again = _join(talk, state.join_request(group, member, protocols=("range", "roundrobin")), version, "join again")
    talk.say(_sync(group, again.generation_id, member, given=[member]), sync_version, "sync the new generation")
    identity = D.leave_group.MemberIdentity
    leave = partial(D.leave_group.LeaveGroupRequest, group_id=group)
    talk.say(leave(member_id="nobody", members=[identity(member_id="nobody")]), leave_version, "leave as nobody")
    talk.say(leave(member_id=member, members=[identity(member_id=member)]), leave_version, "leave")
    talk.say(leave(member_id=member, members=[identity(member_id=member)]), leave_version, "leave again")
    talk.say(beat(generation_id=generation, member_id=member), beat_version, "heartbeat after leaving")
    _describe(talk, group, "describe empty")
    talk.say(D.delete_groups.DeleteGroupsRequest(groups_names=[group, group]), 2, "delete")
    _describe(talk, group, "describe dead")


def _two_classic_members(talk: Talk, version: int) -> None:
    """Members that wait for each other need connections of their own, so the second meets a group in the middle."""
    group = talk.fresh("group")
    joined = _join(talk, state.join_request(group), version, "first joins")
    second = state.join_request(group)
    if version >= 4:
        talk.say(second, version, "second gets an id")
    talk.say(
        D.leave_group.LeaveGroupRequest(
            group_id=group,
            member_id=joined.member_id,
            members=[D.leave_group.MemberIdentity(member_id=joined.member_id)],
        ),
        _near(ApiKey.LEAVE_GROUP, version),
        "first leaves before it synced",
    )
    _describe(talk, group, "describe")
    talk.say(D.offset_fetch.OffsetFetchRequest(group_id=group, topics=None), 7, "offsets of a group without")


def _static_member(talk: Talk, version: int) -> None:
    """KIP-345: the same instance comes back and takes its place; the former id is fenced."""
    if version < 5:
        return
    group, request = talk.fresh("group"), partial(state.join_request, instance="i-1")
    sync_version, beat_version = _near(ApiKey.SYNC_GROUP, version), _near(ApiKey.HEARTBEAT, version)
    first = _join(talk, request(group), version, "join")
    talk.say(
        _sync(group, first.generation_id, first.member_id, given=[first.member_id], instance="i-1"),
        sync_version,
        "sync",
    )
    second = talk.say(request(group), version, "join as a new process")
    if second is not None and second.error_code == 0:
        fenced = {"group_id": group, "generation_id": first.generation_id, "group_instance_id": "i-1"}
        talk.say(
            D.heartbeat.HeartbeatRequest(member_id=first.member_id, **fenced), beat_version, "the former's heartbeat"
        )
        talk.say(D.heartbeat.HeartbeatRequest(member_id=second.member_id, **fenced), beat_version, "the new one's")
        talk.say(
            _sync(group, second.generation_id, second.member_id, instance="i-1"), sync_version, "sync of the new one"
        )
        _describe(talk, group, "describe")
        talk.say(
            D.leave_group.LeaveGroupRequest(
                group_id=group,
                members=[
                    D.leave_group.MemberIdentity(member_id="", group_instance_id="i-2"),
                    D.leave_group.MemberIdentity(member_id=first.member_id, group_instance_id="i-1"),
                    D.leave_group.MemberIdentity(member_id="", group_instance_id="i-1"),
                ],
            ),
            max(3, _near(ApiKey.LEAVE_GROUP, version)),
            "removed by its instance",
        )
    _describe(talk, group, "describe at the end")


def _beat(group: str, member: str, epoch: int, **options: Any) -> Any:
    return D.consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **options
    )


def _owned(talk: Talk, *partitions: int) -> Any:
    return [D.consumer_group_heartbeat.TopicPartitions(topic_id=talk.topic_id(PLAIN), partitions=list(partitions))]


def _describe_consumer(talk: Talk, group: str, label: str) -> None:
    request = D.consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group])
    talk.say(request, 1, label)


def _consumer_group(talk: Talk, version: int) -> None:
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
    _describe(talk, group, "describe as classic")
    talk.say(D.delete_groups.DeleteGroupsRequest(groups_names=[group]), 2, "delete")
    if version >= 1:
        regex = {"rebalance_timeout_ms": 5000, "topic_partitions": []}
        group = talk.fresh("group")
        talk.say(_beat(group, one, 0, subscribed_topic_regex="w-pl.*", **regex), version, "join by pattern")
        talk.say(_beat(group, one, -1), version, "leave what was joined by pattern")
        talk.say(_beat(talk.fresh("group"), one, 0, subscribed_topic_regex="(", **regex), version, "a bad pattern")


def _static_consumer(talk: Talk, version: int) -> None:
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


def _fetch_offsets_of(talk: Talk, group: str, label: str, version: int) -> None:
    api = D.offset_fetch
    for what, topics in (("all", None), ("one", [PLAIN])):
        if topics is None and version < 2:
            continue
        request = api.OffsetFetchRequest(
            group_id=group,
            topics=topics and [api.OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1, 9]) for name in topics],
            groups=[
                api.OffsetFetchRequestGroup(
                    group_id=group,
                    topics=topics
                    and [
                        api.OffsetFetchRequestTopics(
                            name=name, topic_id=talk.topic_id(name), partition_indexes=[0, 1, 9]
                        )
                        for name in topics
                    ],
                )
            ],
            require_stable=True,
        )
        talk.say(request, version, f"{label}: {what}")


def _offsets(talk: Talk, version: int) -> None:
    """Commit and fetch without members; metadata at its limit; generations of nobody; deletion."""
    group = talk.fresh("group")
    fetch_version = _near(ApiKey.OFFSET_FETCH, version)
    _fetch_offsets_of(talk, group, "before", fetch_version)
    talk.say(_commit(talk, group, 3, epoch=0, metadata="m"), version, "commit")
    talk.say(_commit(talk, group, 4, partition=1, metadata="x" * 4096), version, "metadata of 4096")
    talk.say(_commit(talk, group, 4, partition=1, metadata="x" * 4097), version, "metadata of 4097")
    talk.say(_commit(talk, group, 4, topic="w-absent"), version, "commit for an absent topic")
    talk.say(_commit(talk, group, 4, partition=99), version, "commit for an absent partition")
    talk.say(_commit(talk, group, 4, generation=3, member="nobody"), version, "commit of nobody")
    talk.say(_commit(talk, group, 4, generation=0), version, "commit of a generation without a member")
    talk.say(_commit(talk, "", 4), version, "commit of the group without a name")
    _fetch_offsets_of(talk, group, "after", fetch_version)
    talk.say(_commit(talk, state.CLASSIC, 4), version, "commit past the members of a group")
    api = D.offset_delete
    partitions = [api.OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9)]
    topics = [api.OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in (PLAIN, "w-absent")]
    talk.say(api.OffsetDeleteRequest(group_id=group, topics=topics), 0, "delete offsets")
    talk.say(api.OffsetDeleteRequest(group_id=state.CLASSIC, topics=topics), 0, "delete offsets that are in use")
    _fetch_offsets_of(talk, group, "after deletion", fetch_version)
    _describe(talk, group, "describe")


def _sequences(talk: Talk, version: int) -> None:
    """Idempotence: repeats, gaps, epochs; and each way in which a batch can be bad."""
    topic = talk.create_topic(talk.fresh("topic"))
    producer_id, epoch = state.init_producer(talk, None)

    def send(label: str, records: bytes | None, **options: Any) -> None:
        talk.say(produce_request(talk, topic, records, **options), version, label)

    def numbered(sequence: int, epoch: int = epoch, count: int = 1) -> bytes:
        values = [b"%d" % (sequence + index) for index in range(count)]
        return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

    for sequence in range(7):
        send(f"sequence {sequence}", numbered(sequence))
    send("sequence 6 again", numbered(6))
    send("sequence 2 again", numbered(2))
    send("sequence 0 again", numbered(0))
    send("a gap", numbered(9))
    send("a later epoch, not from 0", numbered(3, epoch + 1))
    send("a later epoch", numbered(0, epoch + 1))
    send("the former epoch", numbered(7, epoch))
    unknown = batch(b"x", producer_id=987_654, producer_epoch=0, base_sequence=5)
    send("an unknown producer, not from 0", unknown)
    end = batch(b"x", b"y", producer_id=987_655, producer_epoch=0, base_sequence=INT32_MAX)
    send("a sequence that wraps", end)
    send("after it wrapped", batch(b"z", producer_id=987_655, producer_epoch=0, base_sequence=1))
    send("null", None)
    send("empty", b"")
    send("acks 1", batch(b"a"), acks=1)
    send("acks 2", batch(b"a"), acks=2)
    send("two batches", batch(b"a") + batch(b"b"))
    whole = batch(b"a", b"b")
    send("cut off", whole[:-1])
    send("a wrong crc", whole[:-1] + bytes([whole[-1] ^ 1]))
    send("header only", whole[:61])
    send("shorter than a header", whole[:40])
    send("magic 1", whole[:16] + b"\x01" + whole[17:])
    send("magic 3", whole[:16] + b"\x03" + whole[17:])
    send("a base offset", b"\0\0\0\0\0\0\0\x05" + whole[8:])
    send("a control batch", batch(b"a", control=True))
    send(
        "a transactional batch without id",
        batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
    )
    send(
        "a transactional batch of an unknown id",
        batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
        transactional_id="w-unknown",
    )
    send("a producer without sequence", batch(b"a", producer_id=1, producer_epoch=0))
    for codec in Compression:
        send(f"codec {codec.name}", batch(b"a" * 500, b"b" * 500, compression=codec))
    send("a partition that is absent", batch(b"a"), index=1)
    send("a negative partition", batch(b"a"), index=-1)
    send("too large", batch(b"x" * 1_100_000))
    for internal in ("__consumer_offsets", "__transaction_state"):
        talk.say(produce_request(talk, internal, batch(b"a")), version, f"to {internal}")
    talk.say(produce_request(talk, state.COMPACT, batch(b"a", key=None)), version, "no key in a compacted topic")
    talk.say(_fetch(talk, topic, 0), _near(ApiKey.FETCH, version), "all that was written")
    talk.say(
        D.describe_producers.DescribeProducersRequest(
            topics=[D.describe_producers.TopicRequest(name=topic, partition_indexes=[0])]
        ),
        0,
        "the producers",
    )


def _fetch(talk: Talk, topic: str, offset: int, **options: Any) -> Any:
    api = D.fetch
    partition = api.FetchPartition(
        partition=options.pop("partition", 0),
        current_leader_epoch=options.pop("leader_epoch", -1),
        fetch_offset=offset,
        partition_max_bytes=options.pop("partition_max_bytes", 1 << 20),
    )
    topic_id = talk.kept.get(f"id of {topic}", UNKNOWN_ID)
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 22}
    return api.FetchRequest(
        topics=[api.FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])], **values | options
    )


def _fetch_offsets(talk: Talk, version: int) -> None:
    """Offsets in and out of range, both isolation levels over a mixed log, limits, epochs."""
    for offset in range(-1, 12):
        for level in (0, 1):
            talk.say(_fetch(talk, MIXED, offset, isolation_level=level), version, f"mixed from {offset}, level {level}")
    for offset in (0, 1, 3, 5, 6, 7):
        talk.say(_fetch(talk, PLAIN, offset), version, f"plain from {offset}")
    for offset in (0, 1, 2, 3, 4):
        talk.say(_fetch(talk, state.TRIMMED, offset), version, f"trimmed from {offset}")
    talk.say(_fetch(talk, PLAIN, 0, max_bytes=0), version, "max_bytes 0")
    talk.say(_fetch(talk, PLAIN, 0, max_bytes=1), version, "max_bytes 1")
    talk.say(_fetch(talk, PLAIN, 0, partition_max_bytes=1), version, "partition_max_bytes 1")
    talk.say(_fetch(talk, PLAIN, 0, partition_max_bytes=100), version, "partition_max_bytes 100")
    talk.say(_fetch(talk, PLAIN, 0, partition=2), version, "an absent partition")
    talk.say(_fetch(talk, "w-absent", 0), version, "an absent topic")
    talk.say(_fetch(talk, PLAIN, 0, leader_epoch=0), version, "the leader's epoch")
    talk.say(_fetch(talk, PLAIN, 0, leader_epoch=5), version, "a later leader epoch")
    talk.say(_fetch(talk, PLAIN, 6, max_wait_ms=50), version, "wait at the end")


def _fetch_session(talk: Talk, version: int) -> None:
    """KIP-227: a session, what changed in it, forgotten partitions, wrong epochs."""
    if version < 7:
        talk.say(_fetch(talk, PLAIN, 0), version, "without sessions")
        return
    topic = talk.create_topic(talk.fresh("topic"))
    first = talk.say(_fetch(talk, topic, 0, session_epoch=0), version, "open")
    session = {"session_id": first.session_id}
    empty = D.fetch.FetchRequest
    rest: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, **session}
    talk.say(empty(session_epoch=1, **rest), version, "nothing new")
    state.produce(talk, topic, batch(b"a", b"b"))
    talk.say(empty(session_epoch=2, **rest), version, "records came")
    talk.say(empty(session_epoch=2, **rest), version, "a former epoch")
    talk.say(empty(session_epoch=9, **rest), version, "a later epoch")
    talk.say(_fetch(talk, topic, 2, session_epoch=3, **session), version, "a new position")
    talk.say(_fetch(talk, PLAIN, 0, session_epoch=4, **session), version, "one more topic")
    forgotten = [D.fetch.ForgottenTopic(topic=PLAIN, topic_id=talk.topic_id(PLAIN), partitions=[0])]
    talk.say(empty(session_epoch=5, forgotten_topics_data=forgotten, **rest), version, "one topic forgotten")
    talk.say(_fetch(talk, "w-absent", 0, session_epoch=6, **session), version, "an absent topic")
    talk.say(empty(session_epoch=-1, **rest), version, "close")
    talk.say(empty(session_epoch=7, **rest), version, "after it was closed")
    talk.say(_fetch(talk, topic, 0, session_epoch=1, session_id=ABSENT_SESSION), version, "a session that is absent")


def _list_offsets(talk: Talk, version: int) -> None:
    api = D.list_offsets
    for topic in (PLAIN, MIXED, state.TRIMMED, "w-absent"):
        for level in (0, 1):
            for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, state.TIME_MS, state.TIME_MS + 2, 2**62):
                partition = api.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
                request = api.ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=level,
                    timeout_ms=1000,
                    topics=[api.ListOffsetsTopic(name=topic, partitions=[partition])],
                )
                talk.say(request, version, f"{topic} at {timestamp}, level {level}")
    for leader_epoch in (0, 1, 5):
        partition = api.ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=leader_epoch)
        topics = [api.ListOffsetsTopic(name=PLAIN, partitions=[partition])]
        talk.say(api.ListOffsetsRequest(replica_id=-1, topics=topics), version, f"leader epoch {leader_epoch}")


def _init(name: str | None, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000) -> Any:
    return D.init_producer_id.InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
    )


def _producer_ids(talk: Talk, version: int) -> None:
    """Epochs with and without the client's own id and epoch (KIP-360); timeouts; ids that cannot be."""
    name = talk.fresh("id")
    talk.say(_init(None), version, "idempotent")
    first = talk.say(_init(name), version, "first")
    talk.say(_init(name), version, "second")
    talk.say(_init(name, first.producer_id, 1), version, "with its id and epoch")
    talk.say(_init(name, first.producer_id, 0), version, "with an epoch that is over")
    talk.say(_init(name, first.producer_id, 50), version, "with an epoch to come")
    talk.say(_init(name, first.producer_id + 1000, 0), version, "with another's id")
    talk.say(_init(talk.fresh("id"), 77_777, 3), version, "an unknown name with an id")
    talk.say(_init(None, first.producer_id, 0), version, "no name but an id")
    talk.say(_init(name, first.producer_id, -1), version, "an id without epoch")
    talk.say(_init(name, -1, 3), version, "an epoch without id")
    talk.say(_init(""), version, "an empty name")
    for timeout_ms in (0, -1, 1, 900_000, 900_001):
        talk.say(_init(talk.fresh("id"), timeout_ms=timeout_ms), version, f"timeout {timeout_ms}")


def _add(name: str, producer_id: int, epoch: int, *topics: str, partitions: tuple[int, ...] = (0,)) -> Any:
    api = D.add_partitions_to_txn
    return api.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[api.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions)) for topic in topics],
    )


def _end(name: str, producer_id: int, epoch: int, committed: bool) -> Any:
    return D.end_txn.EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=committed
    )


def _transactions(talk: Talk, version: int) -> None:
    """Both generations of the protocol: EndTxn below 5 is TV1, 5 is TV2 with an epoch for each transaction."""
    name, topic = talk.fresh("id"), talk.create_topic(talk.fresh("topic"))
    init_version = 5 if version >= 5 else _near(ApiKey.INIT_PRODUCER_ID, version)
    produce_version = 12 if version >= 5 else 9
    add_version = min(3, version)
    started = talk.say(_init(name), init_version, "init")
    producer_id, epoch = started.producer_id, started.producer_epoch

    def write(label: str, sequence: int, epoch: int) -> None:
        records = batch(
            b"%s" % label.encode(),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        talk.say(produce_request(talk, topic, records, transactional_id=name), produce_version, label)

    def end(label: str, epoch: int, committed: bool, *, by: int = producer_id) -> int:
        answer = talk.say(_end(name, by, epoch, committed), version, label)
        state.settle(talk, name)
        if answer is not None and version >= 5 and answer.error_code == 0 and answer.producer_epoch >= 0:
            return int(answer.producer_epoch)
        return epoch

    def describe(label: str) -> None:
        request = D.describe_transactions.DescribeTransactionsRequest(transactional_ids=[name])
        talk.say(request, 0, label)

    describe("describe an empty one")
    epoch = end("commit of nothing", epoch, True)
    epoch = end("abort of nothing", epoch, False)
    if version < 5:
        write("without being added", 0, epoch)
        talk.say(_add(name, producer_id, epoch, topic, "w-absent"), add_version, "add with an absent topic")
        talk.say(_add(name, producer_id, epoch, topic, partitions=(0, 7)), add_version, "add with an absent partition")
        talk.say(_add(name, producer_id, epoch, "__consumer_offsets"), add_version, "add an internal topic")
        talk.say(_add(name, producer_id + 1, epoch, topic), add_version, "add by another producer")
        talk.say(_add(name, producer_id, epoch + 1, topic), add_version, "add by a later epoch")
        talk.say(_add("w-unknown", producer_id, epoch, topic), add_version, "add by an unknown name")
        talk.say(_add(name, producer_id, epoch, topic), add_version, "add")
        talk.say(_add(name, producer_id, epoch, topic), add_version, "add again")
    write("one", 0, epoch)
    describe("describe an ongoing one")
    talk.say(_fetch(talk, topic, 0, isolation_level=1), 11, "committed before the end")
    plain = batch(b"plain", producer_id=producer_id, producer_epoch=epoch, base_sequence=1)
    talk.say(produce_request(talk, topic, plain), produce_version, "plain record of the same producer")
    talk.say(_end(name, producer_id + 1, epoch, True), version, "commit by another producer")
    talk.say(_end(name, producer_id, epoch + 1, True), version, "commit by a later epoch")
    talk.say(_end("w-unknown", producer_id, epoch, True), version, "commit of an unknown name")
    before = epoch
    epoch = end("commit", epoch, True)
    end("commit again", before, True)
    end("abort of what is committed", before, False)
    talk.say(_fetch(talk, topic, 0, isolation_level=1), 11, "committed after the end")
    if version < 5:
        talk.say(_add(name, producer_id, epoch, topic), add_version, "add for a second")
    write("two", 1 if version < 5 else 0, epoch)
    fenced = epoch
    epoch = end("abort", epoch, False)
    end("abort again", fenced, False)
    end("commit of what is aborted", fenced, True)
    talk.say(_fetch(talk, topic, 0, isolation_level=1), 11, "all with an aborted one")
    if version < 5:
        talk.say(_add(name, producer_id, epoch, topic), add_version, "add for a third")
    write("three", 2 if version < 5 else 0, epoch)
    again = talk.say(_init(name), init_version, "another process takes over")
    state.settle(talk, name)
    write("a zombie writes", 3 if version < 5 else 1, epoch)
    end("a zombie commits", epoch, True)
    if again is not None:
        end("nothing to commit", again.producer_epoch, True)
    describe("describe at the end")
    talk.say(_fetch(talk, topic, 0, isolation_level=1), 11, "all")
    talk.say(_fetch(talk, topic, 0, isolation_level=0), 11, "all, committed or not")


def _expired_transaction(talk: Talk, version: int) -> None:
    """The coordinator aborts what outlived its timeout and bumps the epoch; the producer comes back (KIP-588)."""
    name, topic = talk.fresh("id"), talk.create_topic(talk.fresh("topic"))
    init_version = 5 if version >= 5 else _near(ApiKey.INIT_PRODUCER_ID, version)
    produce_version = 12 if version >= 5 else 9
    started = talk.say(_init(name, timeout_ms=EXPIRY_MS), init_version, "init")
    producer_id, epoch = started.producer_id, started.producer_epoch
    if version < 5:
        talk.say(_add(name, producer_id, epoch, topic), min(3, version), "add")

    def write(label: str, sequence: int, epoch: int) -> None:
        records = batch(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
        talk.say(produce_request(talk, topic, records, transactional_id=name), produce_version, label)

    write("write in time", 0, epoch)
    request = D.describe_transactions.DescribeTransactionsRequest(transactional_ids=[name])
    talk.wait_until(
        lambda: talk.ask(request, 0).transaction_states[0].transaction_state == "CompleteAbort", f"{name} has expired"
    )
    write("write too late", 1, epoch)
    if version < 5:
        talk.say(_add(name, producer_id, epoch, topic), min(3, version), "add too late")
    talk.say(_end(name, producer_id, epoch, True), version, "commit too late")
    talk.say(_end(name, producer_id, epoch, False), version, "abort too late")
    talk.say(request, 0, "describe the expired one")
    talk.say(_init(name, producer_id, epoch, timeout_ms=EXPIRY_MS), init_version, "come back with the former epoch")
    talk.say(_init(name, timeout_ms=EXPIRY_MS), init_version, "come back")


def _transactional_offsets(talk: Talk, version: int) -> None:
    """KIP-447 fencing, offsets that wait for the end, both ends."""
    name, group = talk.fresh("id"), talk.fresh("group")
    producer_id, epoch = state.init_producer(talk, name)
    api = D.txn_offset_commit

    def commit(label: str, offset: int, *, epoch: int = epoch, **options: Any) -> None:
        partition = api.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [
            api.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])
            for topic in options.pop("topics", [PLAIN])
        ]
        request = api.TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=options.pop("group", group),
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=options.pop("generation", -1),
            member_id=options.pop("member", ""),
            topics=topics,
            **options,
        )
        talk.say(request, version, label)

    if version < 5:
        commit("before the group is added", 1)
        add = D.add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        talk.say(add, _near(ApiKey.ADD_OFFSETS_TO_TXN, version), "add the group")
    commit("commit", 2)
    commit("commit for an absent topic", 2, topics=["w-absent", PLAIN])
    commit("commit by a former epoch", 3, epoch=epoch - 1)
    commit("commit of a generation of nobody", 3, generation=4, member="nobody")
    commit(
        "commit for members of another generation",
        3,
        group=state.CLASSIC,
        generation=9,
        member=talk.kept["classic member"],
    )
    _fetch_offsets_of(talk, group, "while open", 6)
    _fetch_unstable(talk, group)
    end_version = 5 if version >= 5 else 3
    talk.say(_end(name, producer_id, epoch, True), end_version, "end")
    _fetch_offsets_settled(talk, group)


def _fetch_unstable(talk: Talk, group: str) -> None:
    api = D.offset_fetch
    topics = [api.OffsetFetchRequestTopics(name=PLAIN, partition_indexes=[0])]
    groups = [api.OffsetFetchRequestGroup(group_id=group, topics=topics)]
    talk.say(api.OffsetFetchRequest(groups=groups, require_stable=True), 9, "stable offsets while open")


def _fetch_offsets_settled(talk: Talk, group: str) -> None:
    api = D.offset_fetch
    topics = [api.OffsetFetchRequestTopics(name=PLAIN, partition_indexes=[0])]
    groups = [api.OffsetFetchRequestGroup(group_id=group, topics=topics)]
    # Kafka answers the end before it has told the group, and 88 says so.
    talk.say(api.OffsetFetchRequest(groups=groups, require_stable=True), 9, "offsets at the end", passing={88})


def _topic_life(talk: Talk, version: int) -> None:
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
    for label, assignments in {
        "assigned": [(0, [1]), (1, [1])],
        "assigned with a gap": [(0, [1]), (2, [1])],
        "assigned to a broker that is absent": [(0, [9])],
        "assigned twice to one broker": [(0, [1, 1])],
        "assigned to nobody": [(0, [])],
        "assigned twice": [(0, [1]), (0, [1])],
    }.items():
        parts = [api.CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in assignments]
        topic = api.CreatableTopic(
            name=talk.fresh("topic"), num_partitions=-1, replication_factor=-1, assignments=parts
        )
        create(label, topic)
    grow = D.create_partitions
    grow_version = _near(ApiKey.CREATE_PARTITIONS, version)
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
        talk.say(request, _near(ApiKey.DELETE_TOPICS, version), label)
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


def _configs(talk: Talk, version: int) -> None:
    """Operations set, delete, append and subtract, on each kind of resource, right and wrong."""
    api = D.incremental_alter_configs
    topic = talk.create_topic(talk.fresh("topic"))

    def alter(label: str, kind: int, name: str, *changes: tuple[str, int, str | None], validate: bool = False) -> None:
        configs = [api.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
        resource = api.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = api.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate)
        talk.say(request, version, label)

    alter("set", 2, topic, ("retention.ms", 0, "5000"))
    alter("try", 2, topic, ("retention.ms", 0, "6000"), validate=True)
    alter("append", 2, topic, ("cleanup.policy", 2, "compact"))
    alter("append what is there", 2, topic, ("cleanup.policy", 2, "compact"))
    alter("subtract", 2, topic, ("cleanup.policy", 3, "delete"))
    alter("append to what is no list", 2, topic, ("retention.ms", 2, "1"))
    alter("delete", 2, topic, ("retention.ms", 1, None))
    alter("delete what is not set", 2, topic, ("segment.ms", 1, None))
    alter("set null", 2, topic, ("segment.ms", 0, None))
    alter("an unknown operation", 2, topic, ("segment.ms", 9, "1"))
    alter("an unknown config", 2, topic, ("no.such", 0, "1"))
    alter("delete an unknown config", 2, topic, ("no.such", 1, None))
    alter("a bad value", 2, topic, ("retention.ms", 0, "soon"))
    alter("a bad value among good ones", 2, topic, ("segment.ms", 0, "70000"), ("retention.ms", 0, "soon"))
    alter("the same twice", 2, topic, ("segment.ms", 0, "70000"), ("segment.ms", 0, "80000"))
    alter("an absent topic", 2, "w-absent", ("segment.ms", 0, "70000"))
    alter("an illegal topic", 2, "a/b", ("segment.ms", 0, "70000"))
    alter("no topic", 2, "", ("segment.ms", 0, "70000"))
    alter("a broker", 4, "1", ("log.cleaner.threads", 0, "2"))
    alter("a broker's fixed config", 4, "1", ("node.id", 0, "2"))
    alter("all brokers", 4, "", ("log.retention.ms", 0, "604800001"))
    alter("all brokers, back", 4, "", ("log.retention.ms", 1, None))
    alter("a broker, back", 4, "1", ("log.cleaner.threads", 1, None))
    alter("another broker", 4, "2", ("log.cleaner.threads", 0, "2"))
    alter("a broker that is no number", 4, "one", ("log.cleaner.threads", 0, "2"))
    alter("a group", 32, "w-some-group", ("consumer.session.timeout.ms", 0, "50000"))
    alter("a group's bad value", 32, "w-some-group", ("consumer.session.timeout.ms", 0, "1"))
    alter("an unknown kind", 3, "x", ("a", 0, "1"))
    seen = D.describe_configs
    for label, kind, name in (("the topic", 2, topic), ("the group", 32, "w-some-group")):
        resource = seen.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = seen.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
        talk.say(request, 4, f"describe {label}")


def _quotas(talk: Talk, version: int) -> None:
    api, asked = D.alter_client_quotas, D.describe_client_quotas
    name = talk.fresh("client")

    def alter(label: str, entity: dict[str, str | None], key: str, value: float = 1e9, **options: bool) -> None:
        parts = [api.EntityData(entity_type=kind, entity_name=of) for kind, of in entity.items()]
        operation = api.OpData(key=key, value=value, remove=options.get("remove", False))
        entries = [api.RequestEntryData(entity=parts, ops=[operation])]
        request = api.AlterClientQuotasRequest(entries=entries, validate_only=options.get("validate", False))
        talk.say(request, version, label)

    def describe(label: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        parts = [asked.ComponentData(entity_type=kind, match_type=how, match=of) for kind, how, of in components]
        talk.say(asked.DescribeClientQuotasRequest(components=parts, strict=strict), version, label)

    alter("try", {"client-id": name}, "producer_byte_rate", validate=True)
    alter("set", {"client-id": name}, "producer_byte_rate")
    alter("set for a user and a client", {"user": "w-user", "client-id": name}, "consumer_byte_rate")
    alter("set a share of time", {"user": "w-user"}, "request_percentage", 50.0)
    alter("an unknown key", {"client-id": name}, "no_such_rate")
    alter("an unknown entity", {"no-such": name}, "producer_byte_rate")
    alter("no entity", {}, "producer_byte_rate")
    alter("zero", {"client-id": name}, "producer_byte_rate", 0.0)
    alter("a fraction", {"client-id": name}, "producer_byte_rate", 1.5)
    alter("an address", {"ip": "127.9.9.9"}, "connection_creation_rate", 1000.0)
    alter("a bad address", {"ip": "nowhere..x"}, "connection_creation_rate", 1000.0)
    alter("an address and a user", {"ip": "127.9.9.9", "user": "w-user"}, "connection_creation_rate", 1000.0)
    describe("by client", ("client-id", 0, name))
    describe("by client, strictly", ("client-id", 0, name), strict=True)
    describe("any user", ("user", 2, None))
    describe("the default user", ("user", 1, None))
    describe("addresses", ("ip", 2, None))
    describe("an unknown kind", ("no-such", 2, None))
    describe("an unknown match", ("user", 7, None))
    describe("a match without name", ("user", 0, None))
    describe("the same kind twice", ("user", 2, None), ("user", 2, None))
    describe("all")
    alter("remove", {"client-id": name}, "producer_byte_rate", remove=True)
    alter("remove what is not set", {"client-id": name}, "producer_byte_rate", remove=True)
    describe("after removal", ("client-id", 0, name), strict=True)


def _delete_records(talk: Talk, version: int) -> None:
    topic, api = talk.create_topic(talk.fresh("topic")), D.delete_records
    state.produce(talk, topic, batch(b"a", b"b", b"c"))
    for label, name, index, offset in (
        ("one", topic, 0, 1),
        ("less again", topic, 0, 0),
        ("past the end", topic, 0, 4),
        ("below -1", topic, 0, -2),
        ("all", topic, 0, -1),
        ("an absent partition", topic, 3, 0),
        ("an absent topic", "w-absent", 0, 0),
        ("an internal topic", "__consumer_offsets", 0, 0),
        ("a compacted topic", state.COMPACT, 0, 0),
    ):
        partition = api.DeleteRecordsPartition(partition_index=index, offset=offset)
        topics = [api.DeleteRecordsTopic(name=name, partitions=[partition])]
        talk.say(api.DeleteRecordsRequest(topics=topics, timeout_ms=5000), version, label)


def _describe_topic_partitions(talk: Talk, version: int) -> None:
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


def _list_transactions(talk: Talk, version: int) -> None:
    api = D.list_transactions
    for label, values in {
        "w-.*": {"transactional_id_pattern": "w-.*"},
        "open": {"state_filters": ["Ongoing"], "transactional_id_pattern": "w-open"},
        "an unknown state": {"state_filters": ["Nope"], "transactional_id_pattern": "w-open"},
        "a bad pattern": {"transactional_id_pattern": "("},
        "long ones": {"duration_filter": 10_000_000, "transactional_id_pattern": "w-open"},
        "an unknown producer": {"producer_id_filters": [999_999]},
    }.items():
        if version >= 2 or "transactional_id_pattern" not in values:
            talk.say(api.ListTransactionsRequest(**values), version, label)


def _list_groups(talk: Talk, version: int) -> None:
    api = D.list_groups
    for label, values in {
        "stable": {"states_filter": ["Stable"], "types_filter": ["Consumer"]},
        "in other case": {"states_filter": ["sTABLE"], "types_filter": ["CONSUMER"]},
        "an unknown state": {"states_filter": ["Nope"]},
        "an unknown type": {"types_filter": ["nope"]},
        "dead": {"states_filter": ["Dead"]},
    }.items():
        if version >= 5 or (version >= 4 and "types_filter" not in values):
            talk.say(api.ListGroupsRequest(**values), version, label)


def _describe_configs(talk: Talk, version: int) -> None:
    api = D.describe_configs
    for label, kind, name, keys in (
        ("a topic", 2, PLAIN, None),
        ("one config", 2, PLAIN, ["retention.ms"]),
        ("no config", 2, PLAIN, []),
        ("an unknown config", 2, PLAIN, ["no.such"]),
        ("an absent topic", 2, "w-absent", None),
        ("an illegal topic", 2, "a/b", None),
        ("an internal topic", 2, "__consumer_offsets", None),
        ("some of a broker", 4, "1", ["log.retention.ms", "compression.type", "log.segment.bytes", "ssl.key.password"]),
        ("another broker", 4, "7", None),
        ("a broker that is no number", 4, "x", None),
        ("all brokers", 4, "", ["log.retention.ms"]),
        ("a group", 32, "w-nobody", None),
        ("no group", 32, "", None),
        ("client metrics", 16, "w-subscription", None),
        ("an unknown kind", 77, "x", None),
        ("a logger of another broker", 8, "7", None),
    ):
        resource = api.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for synonyms in (False, True):
            request = api.DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)
            talk.say(request, version, f"{label}{' with synonyms' if synonyms else ''}")


def _metadata(talk: Talk, version: int) -> None:
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
