"""From the settings of a topic and its broker to those of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.log.log_config import LogConfig
from oncelog.protocol.records.batch import TimestampType
from oncelog.protocol.records.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncelog.broker.config.broker_config import BrokerConfig

_SAME = (
    "segment.bytes",
    "segment.ms",
    "segment.jitter.ms",
    "segment.index.bytes",
    "index.interval.bytes",
    "flush.messages",
    "flush.ms",
    "retention.ms",
    "retention.bytes",
    "max.message.bytes",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "file.delete.delay.ms",
)

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_LEVELS = {
    "gzip": "compression.gzip.level",
    "lz4": "compression.lz4.level",
    "zstd": "compression.zstd.level",
}


def log_config(overrides: Mapping[str, str], config: BrokerConfig) -> LogConfig:
    """The log settings of a topic with these overrides, which were checked when they were made."""
    values: dict[str, Any] = {name.replace(".", "_"): config.topic_value(name, overrides) for name in _SAME}
    policies = config.topic_value("cleanup.policy", overrides)
    assert isinstance(policies, list)
    if "compact" in policies:
        # Only closed segments are compacted, so none may stay open for longer than that (KIP-354).
        values["segment_ms"] = min(values["segment_ms"], values["max_compaction_lag_ms"])
    codec = config.topic_value("compression.type", overrides)
    if codec in _CODECS:
        values["compression"] = _CODECS[codec]
    if codec in _LEVELS:
        values["compression_level"] = config.topic_value(_LEVELS[codec], overrides)
    by_broker = config.topic_value("message.timestamp.type", overrides) == "LogAppendTime"
    return LogConfig(
        cleanup_delete="delete" in policies,
        cleanup_compact="compact" in policies,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME if by_broker else TimestampType.CREATE_TIME,
        producer_id_expiration_ms=config.int("producer.id.expiration.ms"),
        transaction_verification=config.bool("transaction.partition.verification.enable"),
        **values,
    )
