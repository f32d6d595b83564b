"""InitProducerId (key 22, versions 0-5): an id for an idempotent producer (KIP-98, KIP-360).

Version 6 exists in Kafka's schemas but is unstable; Java clients would use it if it were advertised.
"""

from __future__ import annotations

from oncelog.broker.runtime.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this version has no transactions yet")
    producer_id = await context.services.producer_ids.next_id()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
