"""Partitions lead and follow as the metadata image says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncelog.broker.admin.topics import create_topics
from oncelog.broker.app import BrokerApp
from oncelog.broker.config.broker_config import Setting
from oncelog.broker.config.load import load_config
from oncelog.broker.metadata.image import MetadataImage
from oncelog.broker.metadata.plans.topics import NewTopic
from oncelog.broker.requests.services import Services
from oncelog.protocol.errors import ErrorCode, KafkaError

OTHER_BROKER = 7


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    app = BrokerApp(load_config(flags=[Setting(name, value, "the test") for name, value in settings.items()]))
    await app.start()
    await create_topics(app.services, [NewTopic("t", partition_count=2)])
    yield app.services
    await app.stop()


def elect(services: Services, leader: int, epoch: int) -> None:
    """Partition 0 of the topic gets another leader."""
    image = services.metadata.image
    topic = image.topics["t"]
    state = topic.partitions[0]._replace(leader=leader, leader_epoch=epoch, isr=(leader,))
    changed = topic._replace(partitions=(state, *topic.partitions[1:]))
    new = MetadataImage(*image._replace(topics={**image.topics, "t": changed}))
    services.partitions.image_changed(image, new)


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "not opened yet"])
async def test_a_partition_that_another_broker_leads_is_not_served_here(services: Services, is_open: bool) -> None:
    if is_open:
        services.partitions.leader("t", 0)
    elect(services, OTHER_BROKER, 1)
    with pytest.raises(KafkaError, match=f"broker {OTHER_BROKER} leads t-0") as refused:
        services.partitions.leader("t", 0)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert services.partitions.leader("t", 1).leader_epoch == 0


async def test_a_partition_that_is_led_here_again_has_the_new_epoch(services: Services) -> None:
    partition = services.partitions.leader("t", 0)
    elect(services, OTHER_BROKER, 1)
    elect(services, services.broker_id, 2)
    assert services.partitions.leader("t", 0) is partition
    assert partition.leader_epoch == 2


async def test_a_partition_without_a_leader_says_so(services: Services) -> None:
    services.partitions.leader("t", 0)
    elect(services, -1, 1)
    with pytest.raises(KafkaError, match="t-0 has no leader"):
        services.partitions.leader("t", 0)
