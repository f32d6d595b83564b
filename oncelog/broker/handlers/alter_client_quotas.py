"""AlterClientQuotas (key 49, versions 0-1): set or remove quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from oncelog.broker.metadata.plans.quotas import QuotaChange, plan_client_quotas
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    ResponseEntryData,
)

CHUNKS = (along("entries"),)


async def handle(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    changes = [
        QuotaChange(
            # Of a kind that stands twice the last one counts, as in Kafka.
            list({part.entity_type: part.entity_name for part in entry.entity}.items()),
            [(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    results = await context.services.metadata.change(
        lambda image: plan_client_quotas(image, changes, validate_only=request.validate_only)
    )
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=result.outcome.code,
                error_message=result.outcome.message,
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in result.entity],
            )
            for result in results
        ]
    )


def error_reply(request: AlterClientQuotasRequest, error: KafkaError, _: RequestContext) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(error_code=error.code, error_message=error.message, entity=entry.entity)
            for entry in request.entries
        ]
    )
