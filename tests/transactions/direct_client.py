"""A transactional client that calls the handlers themselves, in the broker's own event loop: nothing but the disk
can fail between the two."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.services import Services
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages import request_class
from oncelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequestTopic
from oncelog.protocol.messages.produce import PartitionProduceData, TopicProduceData
from oncelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.records.batch import build_batch
from oncelog.protocol.records.record import Record


class Connection:
    listener_name = "PLAINTEXT"
    peer_host = "127.0.0.1"
    peer_address = "127.0.0.1:40000"
    connection_number = 1

    def start_next(self, _: int) -> None:
        """Nothing waits for a request but the caller."""


async def call(services: Services, api: ApiKey, version: int, **fields: Any) -> Any:
    module = import_module(f"oncelog.broker.handlers.{api.stem}")
    request = request_class(api)(**fields)
    context = RequestContext(services, version, "direct", Connection())
    try:
        reply = module.handle(request, context)
        return await reply if inspect.isawaitable(reply) else reply
    except KafkaError as error:
        return module.error_reply(request, error, context)


def check(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode(code), "")


class DirectProducer:
    """Of transaction version 1 or 2."""

    def __init__(self, services: Services, transactional_id: str, version: int, timeout_ms: int) -> None:
        self.services = services
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(self) -> None:
        reply = await call(
            self.services,
            ApiKey.INIT_PRODUCER_ID,
            5,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
        )
        check(reply.error_code)
        self._go_on_as(reply.producer_id, reply.producer_epoch)

    async def send(self, topic: str, partition: int, value: str) -> None:
        if self.version == 1:
            added = await call(
                self.services,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
            )
            check(added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        sequence = self.sequences.get((topic, partition), 0)
        batch = build_batch(
            [Record(0, self.services.clock.wall_ms(), None, value.encode())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        reply = await call(
            self.services,
            ApiKey.PRODUCE,
            11 if self.version == 1 else 12,
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        check(reply.responses[0].partition_responses[0].error_code)
        self.sequences[topic, partition] = sequence + 1

    async def send_offset(self, topic: str, partition: int, offset: int, group_id: str) -> None:
        if self.version == 1:
            added = await call(
                self.services,
                ApiKey.ADD_OFFSETS_TO_TXN,
                3,
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group_id,
            )
            check(added.error_code)
        entry = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        reply = await call(
            self.services,
            ApiKey.TXN_OFFSET_COMMIT,
            3 if self.version == 1 else 5,
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=-1,
            member_id="",
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[entry])],
        )
        check(reply.topics[0].partitions[0].error_code)

    async def end(self, commit: bool) -> None:
        reply = await call(
            self.services,
            ApiKey.END_TXN,
            4 if self.version == 1 else 5,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        check(reply.error_code)
        if self.version == 2:
            self._go_on_as(reply.producer_id, reply.producer_epoch)

    def _go_on_as(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.sequences.clear()


async def committed_offset(services: Services, group_id: str, topic: str, partition: int) -> int:
    """Stable, or KafkaError."""
    reply = await call(
        services,
        ApiKey.OFFSET_FETCH,
        7,
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])],
        require_stable=True,
    )
    check(reply.error_code)
    found = reply.topics[0].partitions[0]
    check(found.error_code)
    offset: int = found.committed_offset
    return offset
