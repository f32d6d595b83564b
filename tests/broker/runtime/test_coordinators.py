"""The shards of an internal topic, as they are loaded at the start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog.broker.coordinator.group_settings import GroupSettings
from oncelog.broker.coordinator.groups import GroupCoordinator
from oncelog.broker.metadata.topic_plans import NewTopic
from oncelog.broker.runtime.clock import Clock
from oncelog.broker.runtime.coordinators import CoordinatorHost
from oncelog.protocol.errors import ErrorCode, KafkaError

EMPTY_LOG = SimpleNamespace(log_start_offset=0, end_offset=0, high_watermark=0)


class Partitions:
    """Those of a broker on which the first one cannot be opened."""

    def leader(self, _: str, index: int) -> Any:
        if index == 0:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it is damaged")
        return SimpleNamespace(log=EMPTY_LOG)


async def test_a_partition_that_cannot_be_opened_does_not_keep_others_from_loading() -> None:
    states = [SimpleNamespace(index=index, leader=1) for index in range(3)]
    image = SimpleNamespace(topic=lambda _: SimpleNamespace(partitions=states))
    metadata: Any = SimpleNamespace(image=image)
    partitions: Any = Partitions()
    unused: Any = None
    host = CoordinatorHost(
        NewTopic("__consumer_offsets"),
        lambda _: GroupCoordinator(GroupSettings),
        broker_id=1,
        metadata=metadata,
        partitions=partitions,
        clock=Clock(),
        create_topics=unused,
    )
    await host.load_all(lambda _, index: index != 2)
    assert host.shard_of_partition(0) is None
    shard = host.shard_of_partition(1)
    assert shard is not None
    assert shard.loaded
    assert host.shard_of_partition(2) is None
    host.close()
