"""Settings of topics, and the broker settings that hold where a topic sets nothing."""

from __future__ import annotations

from typing import Final

from oncelog.broker.config.keys import CLUSTER_WIDE, ConfigKey, table
from oncelog.broker.config.values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Check,
    OneOf,
    Range,
    ThrottledReplicas,
    at_least,
)

LONG_MAX = "9223372036854775807"


def K(name: str, config_type: int, default: str, check: Check | None, doc: str) -> ConfigKey:
    return ConfigKey(name, config_type, default, check, CLUSTER_WIDE, doc)


TOPIC_KEYS: Final = table(
    (
        K(
            "cleanup.policy",
            LIST,
            "delete",
            OneOf("compact", "delete"),
            "What becomes of old data: delete drops it, compact keeps each key's last value, none keeps all.",
        ),
        K(
            "compression.type",
            STRING,
            "producer",
            OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            "The codec in which batches are stored; producer keeps them as they came.",
        ),
        K("compression.gzip.level", INT, "-1", Range(1, 9, -1), "How hard gzip tries; -1 is its default."),
        K("compression.lz4.level", INT, "9", Range(1, 17), "How hard lz4 tries."),
        K("compression.zstd.level", INT, "3", Range(-131072, 22), "How hard zstd tries."),
        K(
            "delete.retention.ms",
            LONG,
            "86400000",
            at_least(0),
            "How long a tombstone stays in a compacted topic.",
        ),
        K(
            "file.delete.delay.ms",
            LONG,
            "60000",
            at_least(0),
            "How long a file stays after it was marked as deleted.",
        ),
        K(
            "flush.messages",
            LONG,
            LONG_MAX,
            at_least(1),
            "Records after which the log is flushed in any case.",
        ),
        K("flush.ms", LONG, LONG_MAX, at_least(0), "The time after which the log is flushed in any case."),
        K(
            "follower.replication.throttled.replicas",
            LIST,
            "",
            ThrottledReplicas(),
            "Replicas whose fetching is throttled, as partition:broker pairs, or * for all.",
        ),
        K(
            "leader.replication.throttled.replicas",
            LIST,
            "",
            ThrottledReplicas(),
            "Replicas whose serving is throttled, as partition:broker pairs, or * for all.",
        ),
        K(
            "index.interval.bytes",
            INT,
            "4096",
            at_least(0),
            "The bytes of log between two entries of an index.",
        ),
        K(
            "local.retention.bytes",
            LONG,
            "-2",
            at_least(-2),
            "Of use with tiered storage only, which is not there.",
        ),
        K(
            "local.retention.ms",
            LONG,
            "-2",
            at_least(-2),
            "Of use with tiered storage only, which is not there.",
        ),
        K("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), "After how long a record must be compacted."),
        K("max.message.bytes", INT, "1048588", at_least(0), "The largest record batch, after compression."),
        K(
            "message.timestamp.after.max.ms",
            LONG,
            "3600000",
            at_least(0),
            "How far a producer's timestamp may lie in the future.",
        ),
        K(
            "message.timestamp.before.max.ms",
            LONG,
            LONG_MAX,
            at_least(0),
            "How far a producer's timestamp may lie in the past.",
        ),
        K(
            "message.timestamp.type",
            STRING,
            "CreateTime",
            OneOf("CreateTime", "LogAppendTime"),
            "Whose clock counts: the producer's (CreateTime) or the broker's (LogAppendTime).",
        ),
        K(
            "min.cleanable.dirty.ratio",
            DOUBLE,
            "0.5",
            Range(0, 1),
            "The share of the log that must be uncompacted before it is compacted again.",
        ),
        K(
            "min.compaction.lag.ms",
            LONG,
            "0",
            at_least(0),
            "How long a record is certain not to be compacted.",
        ),
        K(
            "min.insync.replicas",
            INT,
            "1",
            at_least(1),
            "In-sync replicas that must hold a record before acks=all is answered.",
        ),
        K("preallocate", BOOLEAN, "false", None, "Whether a new segment takes its full size at once."),
        K(
            "remote.log.copy.disable",
            BOOLEAN,
            "false",
            None,
            "Of use with tiered storage only, which is not there.",
        ),
        K("remote.log.delete.on.disable", BOOLEAN, "false", None, "Of use with tiered storage only."),
        K(
            "remote.storage.enable",
            BOOLEAN,
            "false",
            None,
            "Tiered storage; it is not there, so only false will do.",
        ),
        K(
            "retention.bytes",
            LONG,
            "-1",
            None,
            "The size of a partition above which its oldest segments are deleted; -1 sets no limit.",
        ),
        K(
            "retention.ms",
            LONG,
            "604800000",
            at_least(-1),
            "The age at which segments are deleted; -1 for never.",
        ),
        K(
            "segment.bytes",
            INT,
            "1073741824",
            at_least(1048576),
            "The size at which a new segment file is begun.",
        ),
        K("segment.index.bytes", INT, "10485760", at_least(4), "The most that an index may take."),
        K("segment.jitter.ms", LONG, "0", at_least(0), "The most that is taken off segment.ms at random."),
        K("segment.ms", LONG, "604800000", at_least(1), "The age at which a new segment is begun."),
        K(
            "unclean.leader.election.enable",
            BOOLEAN,
            "false",
            None,
            "Whether a replica that lags may become the leader when no other is left.",
        ),
    )
)

_SAME_NAME = (
    "unclean.leader.election.enable",
    "min.insync.replicas",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
)
_LOG_PREFIX = (
    "segment.bytes",
    "retention.bytes",
    "index.interval.bytes",
    "cleanup.policy",
    "preallocate",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "local.retention.ms",
    "local.retention.bytes",
)
_CLEANER_PREFIX = ("delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms")
_MINUTE_MS = 60 * 1000
_HOUR_MS = 60 * _MINUTE_MS

TOPIC_SYNONYMS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    **{name: ((name, 1),) for name in _SAME_NAME},
    **{name: ((f"log.{name}", 1),) for name in _LOG_PREFIX},
    **{name: ((f"log.cleaner.{name}", 1),) for name in _CLEANER_PREFIX},
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": (("message.max.bytes", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
}
"""Per topic key, the broker keys that stand in for it in the order of trial, and their factors."""
