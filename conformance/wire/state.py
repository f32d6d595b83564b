"""What both brokers hold before they are compared: topics, records, groups and transactional ids.

Made by the same requests on both, whose answers are not compared here; the dialogues do that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.protocol.codec import encode
from oncelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from oncelog.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.protocol.messages.end_txn import EndTxnRequest
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from oncelog.protocol.records.batch import build_batch
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

TIME_MS = 1_700_000_000_000
SESSION_MS = 1_800_000
"""The longest that a broker allows: members of prepared groups send no heartbeats."""

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.max.session.timeout.ms": str(SESSION_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
"""For both brokers."""

REFERENCE_SETTINGS = {"broker.session.timeout.ms": "600000"}
"""On a busy machine Kafka's controller takes its broker for dead, and elects leaders anew when it is back."""

PLAIN, MIXED, COMPACT, TRIMMED, ABSENT = "w-plain", "w-mixed", "w-compact", "w-trimmed", "w-absent"
CLASSIC, EMPTY, CONSUMER = "w-classic", "w-empty", "w-consumer"
OPEN, DONE = "w-open", "w-done"


def prepare(talk: Talk) -> None:
    talk.create_topic(PLAIN, partitions=2)
    talk.create_topic(MIXED)
    talk.create_topic(COMPACT, configs={"cleanup.policy": "compact"})
    talk.create_topic(TRIMMED)
    for key_type in (0, 1):
        talk.ask(FindCoordinatorRequest(key="w-any", key_type=key_type), 3)
    talk.await_topic("__consumer_offsets", 3)
    talk.await_topic("__transaction_state", 3)

    produce(talk, PLAIN, batch(b"a", b"b"))
    produce(talk, PLAIN, batch(b"c", b"d", b"e", compression=Compression.GZIP))
    produce(talk, PLAIN, batch(None, time_ms=TIME_MS + 5000))
    produce(talk, COMPACT, batch(b"a", b"b"))
    produce(talk, TRIMMED, batch(b"a", b"b", b"c"))
    trimmed = DeleteRecordsTopic(name=TRIMMED, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    talk.ask(DeleteRecordsRequest(topics=[trimmed], timeout_ms=5000), 2)

    _fill_mixed(talk)
    talk.kept["classic member"] = join_alone(talk, CLASSIC)
    commit(talk, CLASSIC, generation=1, member=talk.kept["classic member"])
    commit(talk, EMPTY)
    talk.kept["consumer member"] = join_consumer(talk, CONSUMER)
    commit(talk, CONSUMER, generation=1, member=talk.kept["consumer member"])


def _fill_mixed(talk: Talk) -> None:
    """A committed transaction, plain records, an aborted transaction, and one that stays open."""
    producer = init_producer(talk, DONE)
    transactional(talk, DONE, producer, MIXED, b"committed")
    end(talk, DONE, producer, committed=True)
    produce(talk, MIXED, batch(b"plain"))
    producer = init_producer(talk, DONE)
    transactional(talk, DONE, producer, MIXED, b"aborted")
    end(talk, DONE, producer, committed=False)
    talk.kept["done producer"] = producer = init_producer(talk, DONE)
    transactional(talk, DONE, producer, MIXED, b"committed too")
    end(talk, DONE, producer, committed=True)
    talk.kept["open producer"] = producer = init_producer(talk, OPEN)
    transactional(talk, OPEN, producer, MIXED, b"open")


def batch(*values: bytes | None, time_ms: int = TIME_MS, key: bytes | None = b"key", **options: Any) -> bytes:
    records = [Record(0, time_ms + index, key, value, [("h", b"1")]) for index, value in enumerate(values)]
    return bytes(build_batch(records, **options))


def produce_request(talk: Talk, topic: str, records: bytes | None, *, index: int = 0, **options: Any) -> ProduceRequest:
    """For every version: the name and the id of the topic, of which a version sends one."""
    return ProduceRequest(
        acks=options.get("acks", -1),
        timeout_ms=5000,
        transactional_id=options.get("transactional_id"),
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=talk.kept.get(f"id of {topic}", b"\x07" * 16),
                partition_data=[PartitionProduceData(index=index, records=records)],
            )
        ],
    )


def produce(talk: Talk, topic: str, records: bytes, **options: Any) -> Any:
    return talk.ask(produce_request(talk, topic, records, **options), 9)


def init_producer(talk: Talk, transactional_id: str | None) -> tuple[int, int]:
    answer = talk.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=900_000), 3)
    assert answer.error_code == 0, f"no producer id: {answer}"
    return answer.producer_id, answer.producer_epoch


def add_partition(talk: Talk, transactional_id: str, producer: tuple[int, int], topic: str) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    talk.ask(request, 3)


def transactional(talk: Talk, transactional_id: str, producer: tuple[int, int], topic: str, value: bytes) -> None:
    """One record, enlisted as the older clients do."""
    add_partition(talk, transactional_id, producer, topic)
    records = batch(value, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=True)
    produce(talk, topic, records, transactional_id=transactional_id)


def end(talk: Talk, transactional_id: str, producer: tuple[int, int], *, committed: bool) -> None:
    """End a transaction, unseen, and wait until its markers are written."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=committed,
    )
    talk.ask(request, 3)
    settle(talk, transactional_id)


def settle(talk: Talk, transactional_id: str) -> None:
    """Wait until no marker is outstanding: Kafka answers EndTxn before it writes them."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    talk.wait_until(
        lambda: not talk.ask(request, 0).transaction_states[0].transaction_state.startswith("Prepare"),
        f"{transactional_id} has ended",
    )


def subscription(*topics: str) -> bytes:
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def join_request(group: str, member: str = "", **options: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=5000,
        member_id=member,
        group_instance_id=options.get("instance"),
        protocol_type=options.get("protocol_type", "consumer"),
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=subscription(PLAIN))
            for name in options.get("protocols", ("range",))
        ],
    )


def join_alone(talk: Talk, group: str, **options: Any) -> str:
    """Make a stable group of one member, and return its id."""
    answer = talk.ask(join_request(group, **options), 3)
    member = str(answer.member_id)
    assignment = SyncGroupRequestAssignment(member_id=member, assignment=b"its assignment")
    talk.ask(
        SyncGroupRequest(
            group_id=group, generation_id=answer.generation_id, member_id=member, assignments=[assignment]
        ),
        2,
    )
    return member


def join_consumer(talk: Talk, group: str, member: str = "AAAAAAAAAAAAAAAAAAAAAA") -> str:
    """Make a group of the consumer protocol with one member that has all it subscribed to."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=[PLAIN],
        topic_partitions=[],
    )
    answer = talk.ask(request, 1)
    return str(answer.member_id)


def commit(talk: Talk, group: str, *, generation: int = -1, member: str = "", topic: str = PLAIN) -> Any:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=2, committed_metadata="noted")
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=talk.topic_id(topic), partitions=[partition])],
    )
    return talk.ask(request, 9)
