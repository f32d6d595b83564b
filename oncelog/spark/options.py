"""The options of the sink, checked before anything is sent.

They are given to `exactly_once_sink(...)` under Spark's names, so that a job can move from Spark's own sink without
changes: `topic`, and Kafka's producer settings as `kafka.*`. Settings that only tune Java's producer are accepted, and
a log line names them. Settings that would weaken the guarantee, or that are unknown, are refused.
"""

from __future__ import annotations

import logging
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

logger = logging.getLogger(__name__)

_FIXED = {
    "acks": (("all", "-1"), "would give up exactly-once"),
    "enable.idempotence": (("true",), "would give up exactly-once"),
    "partitioner.ignore.keys": (("false",), "would send rows with one key to several partitions"),
    "transaction.two.phase.commit.enable": (("false",), "would leave the end of a transaction to somebody else"),
}
"""Settings with the only values that the sink can work with, and what any other value would do."""
_REFUSED = {
    "transactional.id": "give transactional_id instead",
    "bootstrap.servers": "give the first argument instead",
    "key.serializer": "keys are written as they are",
    "value.serializer": "values are written as they are",
    "partitioner.class": "keys are hashed as Java's client does; a column `partition` overrides it",
    "interceptor.classes": "the sink does not run Java's producer, so it cannot call them",
}
_WITHOUT_EFFECT = frozenset(
    {
        "auto.include.jmx.reporter",
        "buffer.memory",
        "client.dns.lookup",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Settings that tune Java's producer. None of them can weaken the guarantee here."""


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
    checkpoint: str | None = None
    """The query's checkpointLocation, which the sink reads over Spark Connect."""


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
    _log_ignored(settings)
    return options._replace(security=_security(security))


def _log_ignored(settings: Mapping[str, object]) -> None:
    ignored = sorted(name for name in settings if name.removeprefix("kafka.") in _WITHOUT_EFFECT | _FIXED.keys())
    if ignored:
        logger.warning(
            "these producer settings have no effect on the exactly-once sink: %s",
            ", ".join(f"{name}={settings[name]}" for name in ignored),
        )


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
    if key in _FIXED:
        possible, harm = _FIXED[key]
        if value.lower() not in possible:
            raise SinkError(f"{name}={value} {harm}; only {possible[0]} is possible")
        return options
    if key in _WITHOUT_EFFECT:
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
