"""AlterReplicaLogDirs (key 34, versions 1-2): move replicas to other directories of the broker (KIP-113).

A broker has one log directory. A move to it changes nothing; any other directory is not found.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

_DIRECTORY_NAME_MAX = 255
_FUTURE_SUFFIX = ".00000000000000000000000000000000-future"
"""Kafka names the directory of a replica that is being moved like this, and refuses a topic whose name is too long."""


async def handle(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    pace = Pace(context)
    codes: dict[str, dict[int, ErrorCode]] = {}
    for name, index, path in _wanted(request):
        # A partition that is named several times goes to the last of its directories.
        codes.setdefault(name, {})[index] = _move(name, index, path, context)
        if pace.is_over:
            await pace.rest()
    return _response(codes)


def error_reply(
    request: AlterReplicaLogDirsRequest, error: KafkaError, _: RequestContext
) -> AlterReplicaLogDirsResponse:
    codes: dict[str, dict[int, ErrorCode]] = {}
    for name, index, _path in _wanted(request):
        codes.setdefault(name, {})[index] = error.code
    return _response(codes)


def _wanted(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[str, int, str]]:
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                yield topic.name, index, directory.path


def _move(name: str, index: int, path: str, context: RequestContext) -> ErrorCode:
    services = context.services
    if len(f"{name}-{index}{_FUTURE_SUFFIX}") > _DIRECTORY_NAME_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != services.logs.root:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = services.metadata.image.topic(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if services.broker_id in topic.partitions[index].replicas else ErrorCode.REPLICA_NOT_AVAILABLE


def _response(codes: dict[str, dict[int, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in of_topic.items()
                ],
            )
            for name, of_topic in codes.items()
        ]
    )
