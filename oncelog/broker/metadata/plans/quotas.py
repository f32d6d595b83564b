"""Alters client quotas (KIP-546): rates per user, per client id, per both, or per IP address."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING

from oncelog.broker.metadata.keys import encode_quotas, quota_key
from oncelog.broker.metadata.plans.plan import OK, Outcome, Plan, compare_written
from oncelog.broker.metadata.store import ABSENT, Delete, Put
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.metadata.keys import QuotaEntity
    from oncelog.broker.metadata.store import Write

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
# The largest value of each quota that is a whole number; None where fractions are allowed.
_CLIENT_QUOTAS = {
    "producer_byte_rate": _INT64_MAX,
    "consumer_byte_rate": _INT64_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_QUOTAS = {"connection_creation_rate": _INT32_MAX}
_FRACTION_TOLERATED = 1e-6


class QuotaChange(NamedTuple):
    """`entity` pairs a type with a name (None: the default of the type); a quota of None is removed."""

    entity: Sequence[tuple[str, str | None]]
    quotas: Sequence[tuple[str, float | None]]


class QuotaResult(NamedTuple):
    entity: QuotaEntity
    outcome: Outcome


def plan_client_quotas(
    image: MetadataImage, changes: Sequence[QuotaChange], *, validate_only: bool = False
) -> Plan[list[QuotaResult]]:
    entities = [tuple(sorted(change.entity, key=_type_of)) for change in changes]
    occurrences = Counter(entities)
    results: dict[QuotaEntity, QuotaResult] = {}
    writes: list[Write] = []
    for entity, change in zip(entities, changes, strict=True):
        try:
            if occurrences[entity] > 1:
                raise _invalid("Each entity must appear at most once.")
            writes += _plan_entity(image, entity, change.quotas)
        except KafkaError as error:
            results[entity] = QuotaResult(entity, Outcome.refused(error))
        else:
            results[entity] = QuotaResult(entity, OK)
    if validate_only:
        writes = []
    return Plan(list(results.values()), writes, compare_written(image, writes))


def _plan_entity(image: MetadataImage, entity: QuotaEntity, changes: Sequence[tuple[str, float | None]]) -> list[Write]:
    allowed = _allowed_quotas(entity)
    if len({key for key, _ in changes}) != len(changes):
        raise _invalid("A quota key must appear at most once.")
    present = image.quotas.get(entity, {})
    quotas = dict(present)
    for key, value in changes:
        if value is None:
            quotas.pop(key, None)
        else:
            _check_quota(allowed, key, value)
            quotas[key] = value
    if quotas == present:
        return []
    key = quota_key(entity)
    if quotas:
        return [Put(key, encode_quotas(quotas))]
    return [] if image.revision_of(key) == ABSENT else [Delete(key)]


def _allowed_quotas(entity: QuotaEntity) -> Mapping[str, int | None]:
    types = [kind for kind, _ in entity]
    if not types:
        raise _invalid("Invalid empty client quota entity.")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if types.count(kind) > 1:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in types:
        return _CLIENT_QUOTAS
    if len(types) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    _check_ip(entity[0][1])
    return _IP_QUOTAS


def _check_ip(name: str | None) -> None:
    """Kafka resolves host names here; we do not let a request make the controller wait for a name server."""
    from ipaddress import ip_address

    try:
        if name is not None:
            ip_address(name)
    except ValueError:
        raise _invalid(f"{name} is not a valid IP or resolvable host. Names are not resolved.") from None


def _check_quota(allowed: Mapping[str, int | None], key: str, value: float) -> None:
    if key not in allowed:
        raise _invalid(f"Invalid configuration key {key}")
    if not isfinite(value) or value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    maximum = allowed[key]
    if maximum is None:
        return
    if value > maximum:
        raise _invalid(f"Proposed value for {key} is larger than {maximum}.")
    if value % 1.0 > _FRACTION_TOLERATED:
        raise _invalid(f"{key} cannot be a fractional value.")


def _type_of(pair: tuple[str, str | None]) -> str:
    return pair[0]


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
