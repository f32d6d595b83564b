"""Transactional batches without a transaction, as no client sends them."""

from __future__ import annotations

import time

from oncelog.client.addresses import parse_addresses
from oncelog.client.connection import Connection
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog.protocol.records.batch import build_batch
from oncelog.protocol.records.record import Record
from oncelog.protocol.schema import Versions

VERSION_WITHOUT_ADDING = 9


def produce_unasked(
    address: str,
    topic: str,
    partition: int,
    *,
    producer_id: int,
    version: int = VERSION_WITHOUT_ADDING,
    age_ms: int = 0,
) -> int:
    """Write as part of a transaction that the coordinator knows nothing of; the code of the answer."""
    batch = build_batch(
        [Record(0, int(time.time() * 1000) - age_ms, None, b"hanging")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    with Connection(parse_addresses(address)[0]) as connection:
        connection.versions[ApiKey.PRODUCE] = Versions(version, version)
        answer = connection.send(request, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def open_hanging_transaction(address: str, topic: str, partition: int, *, age_ms: int) -> int:
    """On a broker that does not verify; the producer id."""
    with Connection(parse_addresses(address)[0]) as connection:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        producer_id = connection.send(request, InitProducerIdResponse).producer_id
    assert produce_unasked(address, topic, partition, producer_id=producer_id, age_ms=age_ms) == 0
    return producer_id


def describe_producers(address: str, topic: str, partition: int) -> list[ProducerState]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    with Connection(parse_addresses(address)[0]) as connection:
        answer = connection.send(request, DescribeProducersResponse)
    return answer.topics[0].partitions[0].active_producers
