"""Settings of the log: the broker's defaults for topics, flushing, retention and compaction."""

from __future__ import annotations

from oncelog.broker.config.keys import CLUSTER_WIDE, READ_ONLY, ConfigKey
from oncelog.broker.config.values import BOOLEAN, DOUBLE, INT, LIST, LONG, STRING, OneOf, Range, at_least

K = ConfigKey
LONG_MAX = "9223372036854775807"

FILES = (
    K("log.dirs", LIST, None, None, READ_ONLY, "The directory of the data; it wins over log.dir."),
    K("log.dir", LIST, "data", None, READ_ONLY, "The directory of the data where log.dirs is not set."),
    K(
        "log.segment.bytes",
        INT,
        "1073741824",
        at_least(1048576),
        CLUSTER_WIDE,
        "The size at which a new segment file is begun.",
    ),
    K(
        "log.roll.ms",
        LONG,
        None,
        None,
        CLUSTER_WIDE,
        "The age at which a new segment is begun even if the last is not full; log.roll.hours where not set.",
    ),
    K("log.roll.hours", INT, "168", at_least(1), READ_ONLY, "As log.roll.ms, in hours."),
    K(
        "log.roll.jitter.ms",
        LONG,
        None,
        None,
        CLUSTER_WIDE,
        "The most that is taken off log.roll.ms at random, so that not all logs roll at once.",
    ),
    K("log.roll.jitter.hours", INT, "0", at_least(0), READ_ONLY, "As log.roll.jitter.ms, in hours."),
    K(
        "log.index.size.max.bytes",
        INT,
        "10485760",
        at_least(4),
        CLUSTER_WIDE,
        "The most that an index may take.",
    ),
    K(
        "log.index.interval.bytes",
        INT,
        "4096",
        at_least(0),
        CLUSTER_WIDE,
        "The bytes of log between two entries of an index.",
    ),
    K(
        "log.preallocate",
        BOOLEAN,
        "false",
        None,
        CLUSTER_WIDE,
        "Whether a new segment takes its full size at once.",
    ),
    K(
        "log.segment.delete.delay.ms",
        LONG,
        "60000",
        at_least(0),
        CLUSTER_WIDE,
        "How long a file stays after it was marked as deleted.",
    ),
    K(
        "num.recovery.threads.per.data.dir",
        INT,
        "2",
        at_least(1),
        CLUSTER_WIDE,
        "Logs that are recovered at the same time after a crash.",
    ),
)

FLUSH = (
    K(
        "log.flush.on.ack",
        BOOLEAN,
        "true",
        None,
        READ_ONLY,
        "Whether acks=all waits until records are on the disk; false trusts the page cache, as Kafka does.",
    ),
    K(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        at_least(1),
        CLUSTER_WIDE,
        "The number of records after which a log is flushed in any case.",
    ),
    K(
        "log.flush.interval.ms",
        LONG,
        None,
        None,
        CLUSTER_WIDE,
        "The time after which a log is flushed in any case; log.flush.scheduler.interval.ms where not set.",
    ),
    K(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        None,
        READ_ONLY,
        "How often it is looked for logs that are due for a flush.",
    ),
    K(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        "60000",
        at_least(0),
        READ_ONLY,
        "How often the recovery points are written to disk.",
    ),
    K(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        "60000",
        at_least(0),
        READ_ONLY,
        "How often the log start offsets are written to disk.",
    ),
)

RETENTION = (
    K(
        "log.retention.ms",
        LONG,
        None,
        None,
        CLUSTER_WIDE,
        "The age at which segments are deleted, -1 for never; log.retention.minutes where not set.",
    ),
    K(
        "log.retention.minutes",
        INT,
        None,
        None,
        READ_ONLY,
        "As log.retention.ms, in minutes; then log.retention.hours.",
    ),
    K("log.retention.hours", INT, "168", None, READ_ONLY, "As log.retention.ms, in hours."),
    K(
        "log.retention.bytes",
        LONG,
        "-1",
        None,
        CLUSTER_WIDE,
        "The size of a partition above which its oldest segments are deleted; -1 sets no limit.",
    ),
    K(
        "log.retention.check.interval.ms",
        LONG,
        "300000",
        at_least(1),
        READ_ONLY,
        "How often it is looked for segments to delete.",
    ),
    K(
        "log.cleanup.policy",
        LIST,
        "delete",
        OneOf("compact", "delete"),
        CLUSTER_WIDE,
        "What becomes of old data: delete drops it, compact keeps each key's last value, none keeps all.",
    ),
    K(
        "log.local.retention.ms",
        LONG,
        "-2",
        at_least(-2),
        CLUSTER_WIDE,
        "Meant for tiered storage, which Oncelog does not have; -2 follows the retention time.",
    ),
    K(
        "log.local.retention.bytes",
        LONG,
        "-2",
        at_least(-2),
        CLUSTER_WIDE,
        "Meant for tiered storage, which Oncelog does not have; -2 follows the retention size.",
    ),
)

TIMESTAMPS = (
    K(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        OneOf("CreateTime", "LogAppendTime"),
        CLUSTER_WIDE,
        "Whose clock counts: the producer's (CreateTime) or the broker's (LogAppendTime).",
    ),
    K(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        at_least(0),
        CLUSTER_WIDE,
        "How far a producer's timestamp may lie in the past.",
    ),
    K(
        "log.message.timestamp.after.max.ms",
        LONG,
        "3600000",
        at_least(0),
        CLUSTER_WIDE,
        "How far a producer's timestamp may lie in the future.",
    ),
)

CLEANER = (
    K("log.cleaner.enable", BOOLEAN, "true", None, READ_ONLY, "Whether topics are compacted at all."),
    K(
        "log.cleaner.threads",
        INT,
        "1",
        at_least(0),
        CLUSTER_WIDE,
        "Logs that are compacted at the same time.",
    ),
    K(
        "log.cleaner.backoff.ms",
        LONG,
        "15000",
        at_least(0),
        CLUSTER_WIDE,
        "The pause when there is nothing to compact.",
    ),
    K(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        "134217728",
        None,
        CLUSTER_WIDE,
        "Memory for the keys of one compaction.",
    ),
    K(
        "log.cleaner.io.buffer.size",
        INT,
        "524288",
        at_least(0),
        CLUSTER_WIDE,
        "Memory for reading and writing.",
    ),
    K(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        "0.9",
        None,
        CLUSTER_WIDE,
        "How full the memory for keys may become.",
    ),
    K(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        "1.7976931348623157E308",
        None,
        CLUSTER_WIDE,
        "The most that compaction reads and writes per second.",
    ),
    K(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        "0.5",
        Range(0, 1),
        CLUSTER_WIDE,
        "The share of a log that must be uncompacted before it is compacted again.",
    ),
    K(
        "log.cleaner.delete.retention.ms",
        LONG,
        "86400000",
        at_least(0),
        CLUSTER_WIDE,
        "How long a tombstone stays in a compacted topic.",
    ),
    K(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        "0",
        at_least(0),
        CLUSTER_WIDE,
        "How long a record is certain not to be compacted.",
    ),
    K(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        at_least(1),
        CLUSTER_WIDE,
        "After how long a record must be compacted, whatever the ratio.",
    ),
)

LOG_KEYS = (*FILES, *FLUSH, *RETENTION, *TIMESTAMPS, *CLEANER)
