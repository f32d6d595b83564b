"""InitProducerId (key 22, versions 0-5): an id and an epoch for a producer (KIP-98, KIP-360).

Without a transactional id any producer gets a fresh id. With one, it gets the next epoch, whoever had the id
before is fenced, and what it left open is aborted before the answer. Version 6 exists in Kafka's schemas but is
unstable; Java clients would use it if it were advertised.
"""

from __future__ import annotations

from oncelog.broker.coordinator.txn.requests import InitRequest
from oncelog.broker.coordinator.txn.state import ProducerIdentity
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.txn.producers import client_of, run_with_producer_id
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_PRODUCER_FENCED_SINCE = 4


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    services = context.services
    expected = _expected(request)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=await services.producer_ids.next_id(), producer_epoch=0)
    init = InitRequest(
        request.transactional_id,
        request.transaction_timeout_ms,
        expected,
        context.peer.connection_number,
        client_of(context),
    )
    identity = await run_with_producer_id(
        services,
        init.transactional_id,
        lambda coordinator, now, fresh: coordinator.init_producer_id(init, now, fresh),
    )
    return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def error_reply(_: InitProducerIdRequest, error: KafkaError, context: RequestContext) -> InitProducerIdResponse:
    code = error.code
    if code == ErrorCode.PRODUCER_FENCED and context.version < _PRODUCER_FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


def _expected(request: InitProducerIdRequest) -> ProducerIdentity | None:
    if request.producer_id == -1 and request.producer_epoch == -1:
        return None
    if request.producer_id < 0 or request.producer_epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch are given together or not at all")
    return ProducerIdentity(request.producer_id, request.producer_epoch)
