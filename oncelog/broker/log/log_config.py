"""Settings of one partition's log, with Apache Kafka 4.3's defaults.

A `LogConfig` never changes; a live log is given a new one. The names are Kafka's topic configs with
underscores, so `LogConfig.segment_bytes` is `segment.bytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.protocol.records.batch import TimestampType

if TYPE_CHECKING:
    from oncelog.protocol.records.compression import Compression

LONG_MAX = 2**63 - 1
_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS


DEFAULTS: dict[str, Any] = {
    "segment_bytes": 1024 * 1024 * 1024,
    "segment_ms": 7 * _DAY_MS,
    "segment_jitter_ms": 0,
    "segment_index_bytes": 10 * 1024 * 1024,
    "index_interval_bytes": 4096,
    "flush_messages": LONG_MAX,
    "flush_ms": LONG_MAX,
    "retention_ms": 7 * _DAY_MS,
    "retention_bytes": -1,
    "max_message_bytes": 1024 * 1024 + 12,
    "cleanup_delete": True,
    "cleanup_compact": False,
    "message_timestamp_type": TimestampType.CREATE_TIME,
    "message_timestamp_before_max_ms": LONG_MAX,
    "message_timestamp_after_max_ms": _HOUR_MS,
    "delete_retention_ms": _DAY_MS,
    "min_compaction_lag_ms": 0,
    "max_compaction_lag_ms": LONG_MAX,
    "min_cleanable_dirty_ratio": 0.5,
    "file_delete_delay_ms": 60 * 1000,
    "producer_id_expiration_ms": _DAY_MS,
    "transaction_verification": True,
    "compression": None,
    "compression_level": None,
    "gaps_anywhere": False,
}
"""`transaction_verification` is the broker's `transaction.partition.verification.enable` (KIP-890).

`compression` is the codec in which batches of clients are stored, None the one in which they come; its level
is None where the codec has none.

`gaps_anywhere` is for a log of which nobody knows yet how it was kept. Where one of our own is recovered, offsets
that are missing at the end of a segment were lost, and what follows them goes. Another broker may have compacted them.
"""


class LogConfig:
    """One immutable set of values; `replace` makes the next."""

    __slots__ = (
        "cleanup_compact",
        "cleanup_delete",
        "compression",
        "compression_level",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "gaps_anywhere",
        "index_interval_bytes",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "message_timestamp_type",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "producer_id_expiration_ms",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "transaction_verification",
    )

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    flush_messages: int
    flush_ms: int
    retention_ms: int
    retention_bytes: int
    max_message_bytes: int
    cleanup_delete: bool
    cleanup_compact: bool
    message_timestamp_type: TimestampType
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    file_delete_delay_ms: int
    producer_id_expiration_ms: int
    transaction_verification: bool
    compression: Compression | None
    compression_level: int | None
    gaps_anywhere: bool

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - DEFAULTS.keys()
        if unknown:
            raise TypeError(f"no such log setting: {', '.join(sorted(unknown))}")
        for name, default in DEFAULTS.items():
            object.__setattr__(self, name, values.get(name, default))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"LogConfig is immutable; use replace({name}=...)")

    def replace(self, **values: Any) -> LogConfig:
        return LogConfig(**{**{name: getattr(self, name) for name in DEFAULTS}, **values})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogConfig) and all(getattr(self, name) == getattr(other, name) for name in DEFAULTS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        changed = ", ".join(f"{n}={getattr(self, n)!r}" for n, d in DEFAULTS.items() if getattr(self, n) != d)
        return f"LogConfig({changed})"
