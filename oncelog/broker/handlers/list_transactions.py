"""ListTransactions (key 66, versions 0-2): transactional ids by state, producer, age and name (KIP-664).

KIP-994 adds the filter by duration, KIP-1152 the pattern of the transactional id.
"""

from __future__ import annotations

from oncelog.broker.base.regex import matcher
from oncelog.broker.coordinator.txn.state import State, Transaction
from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_STATES = {state.title: state for state in State}


async def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    pattern = request.transactional_id_pattern
    matches = matcher(pattern) if pattern else None
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    unknown = [name for name in request.state_filters if name not in _STATES]
    producer_ids = set(request.producer_id_filters)
    shards = context.services.transactions.shards
    for shard in shards:
        await shard.loading()
    now_ms = context.services.clock.wall_ms()

    def wanted(transaction: Transaction) -> bool:
        age_ms = now_ms - transaction.started_ms if transaction.started_ms >= 0 else 0
        return (
            (not request.state_filters or transaction.state in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (request.duration_filter < 0 or age_ms > request.duration_filter)
            and (matches is None or matches(transaction.transactional_id) is not None)
        )

    response = ListTransactionsResponse(unknown_state_filters=unknown)
    pace = Pace(context)
    for shard in shards:
        for transaction in list(shard.coordinator.transactions()):
            if wanted(transaction):
                response.transaction_states.append(_describe(transaction))
            if pace.is_over:
                await pace.rest()
    return response


def _describe(transaction: Transaction) -> TransactionState:
    return TransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.title,
    )
