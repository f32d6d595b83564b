"""DescribeLogDirs (key 35, versions 1-5): sizes of the partitions and of the volume (KIP-113, KIP-827)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator

from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    services = context.services
    pace = Pace(context)
    volume = shutil.disk_usage(services.logs.root)
    described: dict[str, dict[int, DescribeLogDirsPartition | None]] = {}
    for name, indexes in _wanted(request, context):
        partitions = described.setdefault(name, {})
        for index in indexes:
            if index not in partitions:
                partitions[index] = _describe(name, index, context)
            if pace.is_over:
                await pace.rest()
        if pace.is_over:
            await pace.rest()
    topics = []
    for name, partitions in described.items():
        found = [partition for partition in partitions.values() if partition is not None]
        if found:
            topics.append(DescribeLogDirsTopic(name=name, partitions=found))
        if pace.is_over:
            await pace.rest()
    result = DescribeLogDirsResult(
        log_dir=services.logs.root, topics=topics, total_bytes=volume.total, usable_bytes=volume.free
    )
    return DescribeLogDirsResponse(results=[result])


def error_reply(_: DescribeLogDirsRequest, error: KafkaError, context: RequestContext) -> DescribeLogDirsResponse:
    result = DescribeLogDirsResult(error_code=error.code, log_dir=context.services.logs.root)
    return DescribeLogDirsResponse(error_code=error.code, results=[result])


def _wanted(request: DescribeLogDirsRequest, context: RequestContext) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topics is None:
        for topic in context.services.metadata.image.topics.values():
            yield topic.name, range(len(topic.partitions))
    else:
        for asked in request.topics:
            yield asked.topic, asked.partitions


def _describe(topic: str, index: int, context: RequestContext) -> DescribeLogDirsPartition | None:
    """None for a partition that is not here, which is how Kafka leaves it out too."""
    try:
        partition = context.services.partitions.leader(topic, index)
    except KafkaError:
        return None
    return DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size_bytes)
