"""The options of the sink, checked before anything is sent.

They are given to `exactly_once_sink(...)` under Spark's names, so that a job can move from Spark's own sink without
changes: `topic`, and Kafka's producer settings as `kafka.*`. Settings that make no sense here, or that the client
does not support, are refused instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.client.addresses import parse_addresses
from oncelog.client.errors import SecurityError
from oncelog.client.security.options import (
    PLAINTEXT,
    PREFIXES,
    SecurityOptions,
    is_security_setting,
    parse_security,
)
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.records.compression import Compression
from oncelog.spark.errors import SinkError

BATCH_SIZE_BYTES = 512 * 1024
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that a broker allows unless it is configured otherwise; a micro-batch has to fit into it."""
DELIVERY_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000
RUNS_MAX = 5

_IGNORED = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}
"""Settings that say what the sink does anyway."""
_REFUSED = {
    "transactional.id": "give transactional_id instead",
    "bootstrap.servers": "give the first argument instead",
    "key.serializer": "keys are written as they are",
    "value.serializer": "values are written as they are",
    "partitioner.class": "keys are hashed as Java's client does; a column `partition` overrides it",
}


class SinkOptions(NamedTuple):
    bootstrap: str
    transactional_id: str
    topic: str | None = None
    group_id: str = ""
    compression: Compression = Compression.NONE
    batch_size_bytes: int = BATCH_SIZE_BYTES
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    client_id: str = "oncelog-spark"
    runs_max: int = RUNS_MAX
    security: SecurityOptions = PLAINTEXT
    adopt: bool = False
    """Take over an id whose last batch was another query's, as after a deleted checkpoint."""


def parse_options(
    bootstrap: str, transactional_id: str, topic: str | None, adopt: bool, settings: Mapping[str, object]
) -> SinkOptions:
    try:
        parse_addresses(bootstrap)
    except ValueError as error:
        raise SinkError(f"bootstrap: {error}") from None
    if not transactional_id:
        raise SinkError("transactional_id must not be empty")
    if topic is not None and not topic:
        raise SinkError("topic must not be empty; leave it out to take it from a column")
    options = SinkOptions(bootstrap, transactional_id, topic, group_id=transactional_id, adopt=adopt)
    security: dict[str, str] = {}
    for name, value in settings.items():
        key = name.removeprefix("kafka.")
        if key != name and is_security_setting(key):
            security[key] = str(value)
        else:
            options = _with_setting(options, name, str(value).strip())
    return options._replace(security=_security(security))


def _security(settings: Mapping[str, str]) -> SecurityOptions:
    """The key stores are opened here too, so that what is wrong with them shows before a query starts."""
    try:
        security = parse_security(settings)
        if security.protocol.has_tls:
            from oncelog.client.security.tls import tls_context

            tls_context(security)
    except (ValueError, SecurityError) as error:
        raise SinkError(f"kafka.{error}" if str(error).startswith(PREFIXES) else str(error)) from None
    return security


def _with_setting(options: SinkOptions, name: str, value: str) -> SinkOptions:
    if not name.startswith("kafka."):
        raise SinkError(f"there is no option {name!r}; settings of the producer are written kafka.NAME")
    key = name.removeprefix("kafka.")
    if key in _REFUSED:
        raise SinkError(f"{name} cannot be set here: {_REFUSED[key]}")
    if key in _IGNORED:
        if value.lower() not in _IGNORED[key]:
            raise SinkError(f"{name}={value} would give up exactly-once; only {_IGNORED[key][0]} is possible")
        return options
    if key == "compression.type":
        return options._replace(compression=_compression(name, value))
    if key == "client.id":
        return options._replace(client_id=value)
    if key == "batch.size":
        return options._replace(batch_size_bytes=_integer(name, value, 1, 2**30))
    if key == "transaction.timeout.ms":
        return options._replace(transaction_timeout_ms=_integer(name, value, 1, 2**31 - 1))
    if key == "delivery.timeout.ms":
        return options._replace(delivery_timeout_ms=_integer(name, value, 1, 2**31 - 1))
    if key == "request.timeout.ms":
        return options._replace(request_timeout_ms=_integer(name, value, 1, 2**31 - 1))
    raise SinkError(f"{name} is not a setting that the sink knows")


def _compression(name: str, value: str) -> Compression:
    try:
        return Compression[value.upper()]
    except KeyError:
        known = ", ".join(codec.name.lower() for codec in Compression)
        raise SinkError(f"{name} is {value!r}; it must be one of {known}") from None


def _integer(name: str, value: str, least: int, most: int) -> int:
    try:
        number = int(value)
    except ValueError:
        raise SinkError(f"{name} is {value!r}; it must be a whole number") from None
    if not least <= number <= most:
        raise SinkError(f"{name} is {value}; it must lie between {least} and {most}")
    return number
