"""DescribeClientQuotas (key 48, versions 0-1): the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from oncelog.broker.metadata.keys import QuotaEntity

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_ENTITY_TYPES = frozenset(("user", "client-id", "ip"))


def handle(request: DescribeClientQuotasRequest, context: RequestContext) -> DescribeClientQuotasResponse:
    components = _check(request.components)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in context.services.metadata.image.quotas.items()
            if _matches(entity, components, request.strict)
        ],
    )


def error_reply(_: DescribeClientQuotasRequest, error: KafkaError, __: RequestContext) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def _check(components: list[ComponentData]) -> dict[str, ComponentData]:
    checked: dict[str, ComponentData] = {}
    for component in components:
        if component.entity_type not in _ENTITY_TYPES:
            if not component.entity_type:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")
        if component.entity_type in checked:
            message = f"Entity type {component.entity_type} cannot appear more than once in the filter."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
        if component.match is None and component.match_type == _EXACT:
            message = "Request specified MATCH_TYPE_EXACT, but set match string to null."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if component.match is not None and component.match_type != _EXACT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "only an exact match has a name")
        checked[component.entity_type] = component
    if "ip" in checked and len(checked) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an address has quotas only by itself")
    return checked


def _matches(entity: QuotaEntity, components: dict[str, ComponentData], strict: bool) -> bool:
    """Every component must match; a strict filter also allows no part of the entity that it does not name."""
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    for kind, component in components.items():
        if kind not in names:
            return False
        if component.match_type == _EXACT and names[kind] != component.match:
            return False
        if component.match_type == _DEFAULT and names[kind] is not None:
            return False
    return True
