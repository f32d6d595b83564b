"""Good requests that write, read and find records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.good_requests.registry import D, good
from conformance.wire.state import MIXED, PLAIN, TRIMMED
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


@good(ApiKey.PRODUCE)
def _produce(talk: Talk, _: int) -> Any:
    topic = talk.create_topic(talk.fresh("topic"))
    return state.produce_request(talk, topic, state.batch(b"a", b"b"))


@good(ApiKey.FETCH)
def _fetch(talk: Talk, _: int) -> Any:
    partitions = [D.fetch.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)]
    topics = [
        D.fetch.FetchTopic(topic=name, topic_id=talk.topic_id(name), partitions=partitions) for name in (PLAIN, MIXED)
    ]
    return D.fetch.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=topics)


@good(ApiKey.LIST_OFFSETS)
def _list_offsets(_: Talk, __: int) -> Any:
    api = D.list_offsets
    partition = api.ListOffsetsPartition(partition_index=0, timestamp=state.TIME_MS + 1)
    return api.ListOffsetsRequest(
        replica_id=-1, timeout_ms=1000, topics=[api.ListOffsetsTopic(name=PLAIN, partitions=[partition])]
    )


@good(ApiKey.DELETE_RECORDS)
def _delete_records(_: Talk, __: int) -> Any:
    api = D.delete_records
    partition = api.DeleteRecordsPartition(partition_index=0, offset=1)
    topic = api.DeleteRecordsTopic(name=TRIMMED, partitions=[partition])
    return api.DeleteRecordsRequest(topics=[topic], timeout_ms=5000)


@good(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def _offset_for_leader_epoch(_: Talk, __: int) -> Any:
    api = D.offset_for_leader_epoch
    partition = api.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return api.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[api.OffsetForLeaderTopic(topic=PLAIN, partitions=[partition])]
    )
