"""AddOffsetsToTxn (key 25, versions 0-4): make a group's offsets part of a transaction (KIP-98)."""

from __future__ import annotations

import inspect

from oncelog.broker.coordinator.txn.state import ProducerIdentity
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.txn.producers import client_of
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_PRODUCER_FENCED_SINCE = 2


async def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    services = context.services
    await services.groups.leader_of(request.group_id)
    partition = (services.groups.topic, services.groups.partition_of(request.group_id))
    reply = services.transactions.run(
        request.transactional_id,
        lambda coordinator, now: coordinator.add_partitions(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            frozenset((partition,)),
            now,
            connection=context.peer.connection_number,
            client=client_of(context),
        ),
    )
    if inspect.isawaitable(reply):
        await reply
    return AddOffsetsToTxnResponse()


def error_reply(_: AddOffsetsToTxnRequest, error: KafkaError, context: RequestContext) -> AddOffsetsToTxnResponse:
    code = error.code
    if code == ErrorCode.PRODUCER_FENCED and context.version < _PRODUCER_FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
