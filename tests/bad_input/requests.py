"""Well-formed requests and batches, from which the tests make bad ones."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from oncelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import CRC_POSITION, HEADER_SIZE, build_batch, compute_crc
from oncelog.protocol.records.record import Record
from tests.bad_input.raw import RawClient

PRODUCE_VERSION = 12
FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 8
CREATE_TOPICS_VERSION = 7

LATEST = -1
INT32_MAX = 2**31 - 1


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def record(
    value: bytes | None = b"value", key: bytes | None = b"key", *, timestamp: int | None = None, **more: Any
) -> Record:
    return Record(
        offset=0,
        timestamp=now_ms() if timestamp is None else timestamp,
        key=key,
        value=value,
        headers=more.get("headers", []),
        attributes=0,
    )


def batch(*records: Record, **options: Any) -> bytearray:
    return build_batch(records or (record(),), **options)


def patched(data: bytes | bytearray, position: int, format: str, value: int) -> bytearray:
    """The batch with one field of its header replaced, and a CRC that is right again."""
    changed = bytearray(data)
    struct.pack_into(format, changed, position, value)
    return with_crc(changed)


def with_body(data: bytes | bytearray, body: bytes) -> bytearray:
    """The batch with other bytes in place of its records, and a length and CRC that fit them."""
    changed = bytearray(data[:HEADER_SIZE]) + body
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    return with_crc(changed)


def with_crc(data: bytearray) -> bytearray:
    struct.pack_into(">I", data, CRC_POSITION, compute_crc(memoryview(data)))
    return data


def produce(
    topic: str,
    *batches: bytes | bytearray | None,
    acks: int = -1,
    index: int = 0,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One entry for the partition for each batch."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=index, records=records) for records in batches],
            )
        ],
    )


def fetch(topic: str, offset: int = 0, **options: Any) -> FetchRequest:
    """A fetch of partition 0; options are fields of the request or of its one partition."""
    partition = FetchPartition(
        partition=options.pop("index", 0),
        fetch_offset=offset,
        partition_max_bytes=options.pop("partition_max_bytes", 1 << 20),
        current_leader_epoch=options.pop("current_leader_epoch", -1),
    )
    topics = [FetchTopic(topic=topic, topic_id=options.pop("topic_id", bytes(16)), partitions=[partition])]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **options})


def list_offsets(topic: str, timestamp: int = LATEST, **options: Any) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(
        partition_index=0,
        timestamp=timestamp,
        current_leader_epoch=options.pop("current_leader_epoch", -1),
    )
    topics = [ListOffsetsTopic(name=topic, partitions=[partition])]
    return ListOffsetsRequest(**{"replica_id": -1, "topics": topics, **options})


def create_topics(
    *names: str, partitions: int = 1, factor: int = 1, configs: Mapping[str, str] | None = None
) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        timeout_ms=5000,
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=factor,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
            )
            for name in names
        ],
    )


def create_topic(client: RawClient, name: str, *, partitions: int = 1, **configs: str) -> bytes:
    """Create a topic and return its id; settings are written with `_` for `.`."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    request = create_topics(name, partitions=partitions, configs=settings)
    (result,) = client.call(request, CREATE_TOPICS_VERSION).topics
    assert result.error_code == 0, result
    return bytes(result.topic_id)


def produce_codes(response: Any) -> list[int]:
    return [part.error_code for topic in response.responses for part in topic.partition_responses]


def fetch_codes(response: Any) -> list[int]:
    return [part.error_code for topic in response.responses for part in topic.partitions]


def offsets_of(response: Any) -> Sequence[tuple[int, int]]:
    """Code and offset of each partition of a ListOffsets answer."""
    return [(part.error_code, part.offset) for topic in response.topics for part in topic.partitions]


def end_offset(client: RawClient, topic: str) -> int:
    ((code, offset),) = offsets_of(client.call(list_offsets(topic), LIST_OFFSETS_VERSION))
    assert code == 0
    return offset
