"""Producing, fetching, listing offsets and deleting records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.dialogues.common import UNKNOWN_ID, fetch_request, near
from conformance.wire.good_requests import D
from conformance.wire.state import MIXED, PLAIN, batch, produce_request
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.records.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.wire.talk import Talk

ABSENT_SESSION = 12_345
INT32_MAX = 2**31 - 1


def sequences(talk: Talk, version: int) -> None:
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
    talk.say(
        produce_request(talk, state.COMPACT, batch(b"a", b"b", key=None, compression=Compression.GZIP)),
        version,
        "two without a key in a compacted topic",
    )
    timely = talk.create_topic(talk.fresh("topic"), configs={"message.timestamp.before.max.ms": "3600000"})
    talk.say(produce_request(talk, timely, batch(b"a", b"b")), version, "records that are too old")
    talk.say(fetch_request(talk, topic, 0), near(ApiKey.FETCH, version), "all that was written")
    talk.say(
        D.describe_producers.DescribeProducersRequest(
            topics=[D.describe_producers.TopicRequest(name=topic, partition_indexes=[0])]
        ),
        0,
        "the producers",
    )


def fetch_offsets(talk: Talk, version: int) -> None:
    """Offsets in and out of range, both isolation levels over a mixed log, limits, epochs."""
    for offset in range(-1, 12):
        for level in (0, 1):
            talk.say(
                fetch_request(talk, MIXED, offset, isolation_level=level),
                version,
                f"mixed from {offset}, level {level}",
            )
    for offset in (0, 1, 3, 5, 6, 7):
        talk.say(fetch_request(talk, PLAIN, offset), version, f"plain from {offset}")
    for offset in (0, 1, 2, 3, 4):
        talk.say(fetch_request(talk, state.TRIMMED, offset), version, f"trimmed from {offset}")
    talk.say(fetch_request(talk, PLAIN, 0, max_bytes=0), version, "max_bytes 0")
    talk.say(fetch_request(talk, PLAIN, 0, max_bytes=1), version, "max_bytes 1")
    talk.say(fetch_request(talk, PLAIN, 0, partition_max_bytes=1), version, "partition_max_bytes 1")
    talk.say(fetch_request(talk, PLAIN, 0, partition_max_bytes=100), version, "partition_max_bytes 100")
    talk.say(fetch_request(talk, PLAIN, 0, partition=2), version, "an absent partition")
    talk.say(fetch_request(talk, "w-absent", 0), version, "an absent topic")
    talk.say(fetch_request(talk, PLAIN, 0, leader_epoch=0), version, "the leader's epoch")
    talk.say(fetch_request(talk, PLAIN, 0, leader_epoch=5), version, "a later leader epoch")
    talk.say(fetch_request(talk, PLAIN, 6, max_wait_ms=50), version, "wait at the end")
    squeezed = talk.create_topic(talk.fresh("topic"), configs={"compression.type": "zstd"})
    state.produce(talk, squeezed, batch(b"a" * 500))
    talk.say(fetch_request(talk, squeezed, 0), version, "records that zstd compressed")


def fetch_session(talk: Talk, version: int) -> None:
    """KIP-227: a session, what changed in it, forgotten partitions, wrong epochs."""
    if version < 7:
        talk.say(fetch_request(talk, PLAIN, 0), version, "without sessions")
        return
    topic = talk.create_topic(talk.fresh("topic"))
    first = talk.say(fetch_request(talk, topic, 0, session_epoch=0), version, "open")
    session = {"session_id": first.session_id}
    empty = D.fetch.FetchRequest
    rest: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, **session}
    talk.say(empty(session_epoch=1, **rest), version, "nothing new")
    state.produce(talk, topic, batch(b"a", b"b"))
    talk.say(empty(session_epoch=2, **rest), version, "records came")
    talk.say(empty(session_epoch=2, **rest), version, "a former epoch")
    talk.say(empty(session_epoch=9, **rest), version, "a later epoch")
    talk.say(fetch_request(talk, topic, 2, session_epoch=3, **session), version, "a new position")
    talk.say(fetch_request(talk, PLAIN, 0, session_epoch=4, **session), version, "one more topic")
    forgotten = [D.fetch.ForgottenTopic(topic=PLAIN, topic_id=talk.topic_id(PLAIN), partitions=[0])]
    talk.say(empty(session_epoch=5, forgotten_topics_data=forgotten, **rest), version, "one topic forgotten")
    talk.say(fetch_request(talk, "w-absent", 0, session_epoch=6, **session), version, "an absent topic")
    talk.say(empty(session_epoch=-1, **rest), version, "close")
    talk.say(empty(session_epoch=7, **rest), version, "after it was closed")
    talk.say(
        fetch_request(talk, topic, 0, session_epoch=1, session_id=ABSENT_SESSION), version, "a session that is absent"
    )


def fetch_order(talk: Talk, version: int) -> None:
    """Partitions are answered, and filled, in the order in which they were named."""
    topics = [talk.create_topic(talk.fresh("topic"), partitions=3) for _ in range(2)]
    for topic in topics:
        for partition in range(3):
            state.produce(talk, topic, batch(b"x" * 1000), index=partition)
    first, second = topics
    orders: dict[str, Sequence[tuple[str, int, int]]] = {
        "in turn": [(first, 0, 0), (first, 1, 0), (second, 0, 0)],
        "a topic twice": [(first, 2, 0), (second, 1, 0), (first, 0, 0), (second, 0, 0)],
        "backwards": [(second, 2, 0), (second, 1, 0), (second, 0, 0), (first, 2, 0)],
        "a partition twice": [(first, 1, 0), (second, 0, 0), (first, 1, 0), (first, 0, 0)],
        "absent ones": [
            ("w-absent", 0, 0),
            (first, 9, 0),
            (second, 1, 0),
            ("w-absent", 1, 0),
            (first, 0, 0),
            (second, 9, 0),
        ],
        "out of range": [(first, 0, 50), (second, 0, 0), (first, 1, 50), (second, 1, 0)],
    }
    for label, wanted in orders.items():
        for size_bytes in (1 << 20, 2500, 1):
            request = _fetch_in_order(talk, wanted, max_bytes=size_bytes)
            talk.say(request, version, f"{label}, at most {size_bytes}")
    if version < 7:
        return
    request = _fetch_in_order(talk, orders["a topic twice"], max_bytes=2500, session_epoch=0)
    opened = talk.say(request, version, "open a session")
    for epoch in range(1, 5):
        request = _fetch_in_order(talk, [], max_bytes=1, session_id=opened.session_id, session_epoch=epoch)
        talk.say(request, version, f"go on {epoch}")


def _fetch_in_order(talk: Talk, wanted: Sequence[tuple[str, int, int]], **options: Any) -> Any:
    """A request with one topic for each partition and offset, be they of the same topic or not."""
    api = D.fetch
    topics = []
    for name, partition, offset in wanted:
        asked = api.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic_id = talk.kept.get(f"id of {name}", UNKNOWN_ID)
        topics.append(api.FetchTopic(topic=name, topic_id=topic_id, partitions=[asked]))
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1}
    return api.FetchRequest(topics=topics, **values | options)


def list_offsets(talk: Talk, version: int) -> None:
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


def delete_records(talk: Talk, version: int) -> None:
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
