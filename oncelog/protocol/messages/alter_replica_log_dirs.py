"""AlterReplicaLogDirs (key 34): move replicas between the log directories of a broker (KIP-113)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String
from oncelog.protocol.schema import Message, Struct


class AlterReplicaLogDirTopic(Struct):
    name: String
    partitions: list[Int32]


class AlterReplicaLogDir(Struct):
    path: String
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Message, api_key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Message, api_key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: Int32
    results: list[AlterReplicaLogDirTopicResult]
