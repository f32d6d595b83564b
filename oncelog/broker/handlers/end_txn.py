"""EndTxn (key 26, versions 0-5): commit or abort; from version 5 with the bumped epoch (KIP-98, KIP-890).

The answer comes after every partition has its marker, so what was committed is visible when the client hears it.
"""

from __future__ import annotations

import logging

from oncelog.broker.coordinator.txn.requests import EndRequest
from oncelog.broker.coordinator.txn.state import ProducerIdentity
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.txn.producers import run_with_producer_id
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

logger = logging.getLogger(__name__)

_EPOCH_BUMP_SINCE = 5
_TRANSACTION_ABORTABLE_SINCE = 4
_PRODUCER_FENCED_SINCE = 2


async def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    end = EndRequest(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        request.committed,
        2 if context.version >= _EPOCH_BUMP_SINCE else 0,
        context.peer.connection_number,
    )
    identity = await run_with_producer_id(
        context.services, end.transactional_id, lambda coordinator, now, fresh: coordinator.end(end, now, fresh)
    )
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def error_reply(request: EndTxnRequest, error: KafkaError, context: RequestContext) -> EndTxnResponse:
    code = error.code
    if code == ErrorCode.INVALID_TXN_STATE:
        # A producer's own fault, or ours, and the end of it: whoever runs it will want to know why.
        logger.warning(
            "the end of %r by producer %d, epoch %d, was refused: %s",
            *(request.transactional_id, request.producer_id, request.producer_epoch, error),
        )
    if code == ErrorCode.PRODUCER_FENCED and context.version < _PRODUCER_FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and context.version < _TRANSACTION_ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    return EndTxnResponse(error_code=code)
