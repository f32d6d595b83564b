"""UnregisterBroker (key 64, version 0): forget a broker that will not come back (KIP-500).

A broker that runs is not forgotten. Kafka does so on request, and leaves its partitions without a leader until the
broker is restarted.
"""

from __future__ import annotations

from oncelog.broker.metadata.plans.cluster import plan_unregister_broker
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    services = context.services
    await services.metadata.change(
        lambda image: plan_unregister_broker(image, request.broker_id, running_id=services.broker_id)
    )
    return UnregisterBrokerResponse()
