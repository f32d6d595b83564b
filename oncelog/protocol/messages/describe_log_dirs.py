"""DescribeLogDirs (key 35): sizes of replicas and volumes of the log directories (KIP-113, KIP-827)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int16, Int32, Int64, String
from oncelog.protocol.schema import Message, Struct, field


class DescribableLogDirTopic(Struct):
    topic: String
    partitions: list[Int32]


class DescribeLogDirsRequest(Message, api_key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = field(nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    name: String
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: Int16
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = field("4+", default=-1)
    usable_bytes: Int64 = field("4+", default=-1)
    is_cordoned: Bool = field("5+")


class DescribeLogDirsResponse(Message, api_key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16 = field("3+")
    results: list[DescribeLogDirsResult]
