"""AddPartitionsToTxn (key 24, versions 0-5): put partitions into a transaction (KIP-98).

Clients use versions 0 to 3; from version 4 on brokers ask about several transactions at once, to add or only to
verify (KIP-890). Either all partitions of a transaction are added or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.run.group_host import settled
from oncelog.broker.coordinator.txn.state import ProducerIdentity
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.txn.producers import client_of
from oncelog.broker.txn.verification import enlist
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from oncelog.broker.coordinator.txn.state import TopicPartition

_BATCHED_SINCE = 4
_PRODUCER_FENCED_SINCE = 2


CHUNKS = (along("transactions", "results_by_transaction"),)


async def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    if context.version >= _BATCHED_SINCE:
        results = [await _add_for_broker(transaction, context) for transaction in request.transactions]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    topics = request.v3_and_below_topics
    codes = _unknown_partitions(topics, context)
    if codes:
        # One bad partition keeps the others out as well, and they are told so.
        codes = dict.fromkeys(_partitions(topics), ErrorCode.OPERATION_NOT_ATTEMPTED) | codes
    else:
        code = await _add_for_client(request, context)
        codes = dict.fromkeys(_partitions(topics), code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(topics, codes))


def error_reply(
    request: AddPartitionsToTxnRequest, error: KafkaError, context: RequestContext
) -> AddPartitionsToTxnResponse:
    if context.version >= _BATCHED_SINCE:
        return AddPartitionsToTxnResponse(error_code=error.code)
    topics = request.v3_and_below_topics
    codes = dict.fromkeys(_partitions(topics), error.code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(topics, codes))


async def _add_for_client(request: AddPartitionsToTxnRequest, context: RequestContext) -> ErrorCode:
    producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    transactional_id = request.v3_and_below_transactional_id
    partitions = frozenset(_partitions(request.v3_and_below_topics))
    try:
        await settled(
            context.services.transactions.run(
                transactional_id,
                lambda coordinator, now: coordinator.add_partitions(
                    transactional_id,
                    producer,
                    partitions,
                    now,
                    connection=context.peer.connection_number,
                    client=client_of(context),
                ),
            )
        )
    except KafkaError as error:
        if error.code == ErrorCode.PRODUCER_FENCED and context.version < _PRODUCER_FENCED_SINCE:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return error.code
    return ErrorCode.NONE


async def _add_for_broker(
    transaction: AddPartitionsToTxnTransaction, context: RequestContext
) -> AddPartitionsToTxnResult:
    partitions = frozenset(_partitions(transaction.topics))
    codes = _unknown_partitions(transaction.topics, context)
    if codes:
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | codes
    else:
        producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        codes = dict.fromkeys(partitions, ErrorCode.NONE)
        try:
            missing = await settled(
                enlist(
                    context.services,
                    transaction.transactional_id,
                    producer,
                    partitions,
                    adds=not transaction.verify_only,
                )
            )
            codes |= dict.fromkeys(missing, ErrorCode.TRANSACTION_ABORTABLE)
        except KafkaError as error:
            codes = dict.fromkeys(partitions, error.code)
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id, topic_results=_topic_results(transaction.topics, codes)
    )


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _unknown_partitions(
    topics: list[AddPartitionsToTxnTopic], context: RequestContext
) -> dict[TopicPartition, ErrorCode]:
    image = context.services.metadata.image
    unknown = {}
    for name, index in _partitions(topics):
        topic = image.topic(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            unknown[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif topic.internal and context.version < _BATCHED_SINCE:
            # Another broker may well add the partition of a group's offsets.
            unknown[name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return unknown


def _topic_results(
    topics: list[AddPartitionsToTxnTopic], codes: dict[TopicPartition, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=codes[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
