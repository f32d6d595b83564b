"""DescribeLogDirs (key 35, versions 1-5): sizes of the partitions and of the volume (KIP-113, KIP-827)."""

from __future__ import annotations

import shutil

from oncelog.broker.runtime.context import RequestContext
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    services = context.services
    volume = shutil.disk_usage(services.logs.root)
    topics = []
    for name, indexes in _wanted(request, context):
        partitions = [part for index in indexes if (part := _describe(name, index, context)) is not None]
        if partitions:
            topics.append(DescribeLogDirsTopic(name=name, partitions=partitions))
    result = DescribeLogDirsResult(
        log_dir=services.logs.root, topics=topics, total_bytes=volume.total, usable_bytes=volume.free
    )
    return DescribeLogDirsResponse(results=[result])


def error_reply(_: DescribeLogDirsRequest, error: KafkaError, context: RequestContext) -> DescribeLogDirsResponse:
    result = DescribeLogDirsResult(error_code=error.code, log_dir=context.services.logs.root)
    return DescribeLogDirsResponse(error_code=error.code, results=[result])


def _wanted(request: DescribeLogDirsRequest, context: RequestContext) -> list[tuple[str, list[int]]]:
    if request.topics is None:
        image = context.services.metadata.image
        return [(topic.name, [state.index for state in topic.partitions]) for topic in image.topics.values()]
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return [(name, list(indexes)) for name, indexes in wanted.items()]


def _describe(topic: str, index: int, context: RequestContext) -> DescribeLogDirsPartition | None:
    """None for a partition that is not here, which is how Kafka leaves it out too."""
    try:
        partition = context.services.partitions.leader(topic, index)
    except KafkaError:
        return None
    return DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size_bytes)
