"""DescribeTransactions (key 65, version 0): state and partitions of transactional ids (KIP-664).

With tagged fields of our own, which other clients skip, it also says who is behind an id, for `oncelog txns`.
"""

from __future__ import annotations

from oncelog.broker.coordinator.txn.memory import Client
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.once import answer_once
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

_UNKNOWN = Client("", "")


async def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    states = await answer_once(request.transactional_ids, _describe, context)
    return DescribeTransactionsResponse(transaction_states=states)


def error_reply(
    request: DescribeTransactionsRequest, error: KafkaError, _: RequestContext
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(error_code=error.code, transactional_id=transactional_id)
            for transactional_id in request.transactional_ids
        ]
    )


async def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        shard = context.services.transactions.shard_for(transactional_id)
        await shard.loading()
        transaction = shard.coordinator.describe(transactional_id)
    except KafkaError as error:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)
    client = shard.coordinator.client_of(transactional_id) or _UNKNOWN
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        client_address=client.address,
        client_id=client.client_id,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )
