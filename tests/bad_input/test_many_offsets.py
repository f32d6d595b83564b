"""Very many committed offsets go at once, and the event loop has time for others."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from oncelog.broker.coordinator.group.common import Committer
from oncelog.broker.coordinator.group.offsets import OffsetEntry
from oncelog.protocol.messages.delete_groups import DeleteGroupsRequest
from oncelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.bad_input.conftest import StartBroker
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import create_topic
from tests.bad_input.test_large_requests import COMPUTING_SECONDS_MAX

OFFSETS = 50_000
COMMITTED_AT_ONCE = 250
GROUP, TOPIC = "group", "topic"

pytestmark = pytest.mark.timeout(120)


class World:
    def __init__(self, broker: LiveBroker, client: RawClient) -> None:
        self.broker = broker
        self.client = client
        create_topic(client, TOPIC)
        assert client.call(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6).coordinators[0].error_code == 0

    def commit(self, offsets_of_a_group: int) -> None:
        """As OffsetCommit does; but its handler asks for partitions that exist, which take long to make."""
        for start in range(0, OFFSETS, COMMITTED_AT_ONCE):
            self.broker.on_loop(partial(self._commit, start, offsets_of_a_group))

    def _commit(self, start: int, offsets_of_a_group: int) -> None:
        """`COMMITTED_AT_ONCE` of them."""
        size = min(offsets_of_a_group, COMMITTED_AT_ONCE)
        for first in range(start, start + COMMITTED_AT_ONCE, size):
            group_id = f"{GROUP}{first // offsets_of_a_group or ''}"
            self._commit_to(group_id, [OffsetEntry(TOPIC, index, 7) for index in range(first, first + size)])

    def _commit_to(self, group_id: str, entries: list[OffsetEntry]) -> None:
        self.broker.app.services.groups.run(
            GROUP, lambda coordinator, now: coordinator.commit_offsets(Committer(group_id), entries, now)
        )

    def has_offsets(self) -> bool:
        coordinator = self.broker.app.services.groups.shard_for(GROUP).coordinator
        return self.broker.on_loop(lambda: next(coordinator.offset_keys(), None) is not None)

    @contextmanager
    def fair(self) -> Iterator[None]:
        # The collector would visit what other tests have left in this process.
        gc.freeze()
        watch = self.broker.app.loop_watch
        self.broker.on_loop(lambda: setattr(watch, "computing_seconds_max", 0.0))
        try:
            yield
        finally:
            gc.unfreeze()
        assert watch.computing_seconds_max < COMPUTING_SECONDS_MAX

    def delete_group(self) -> None:
        answer = self.client.call(DeleteGroupsRequest(groups_names=[GROUP]), 2)
        assert answer.results[0].error_code == 0

    def delete_topic(self) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=5000)
        assert self.client.call(request, 6).responses[0].error_code == 0

    def let_expire(self) -> None:
        self.broker.on_loop(lambda: self.broker.app.services.clock.advance(61_000))


@pytest.fixture
def world(start_broker: StartBroker) -> Iterator[World]:
    broker = start_broker(
        {
            "offsets.topic.num.partitions": "1",
            "offsets.retention.minutes": "1",
            "offsets.retention.check.interval.ms": "1000",
        }
    )
    with RawClient(broker.port) as client:
        yield World(broker, client)


@pytest.mark.parametrize("remove", [World.delete_group, World.delete_topic, World.let_expire])
def test_many_offsets_of_a_group_go(world: World, remove: Callable[[World], None]) -> None:
    world.commit(OFFSETS)
    with world.fair():
        remove(world)
        wait_until(lambda: not world.has_offsets(), "the offsets are gone")


@pytest.mark.parametrize("remove", [World.delete_topic, World.let_expire])
def test_offsets_of_many_groups_go(world: World, remove: Callable[[World], None]) -> None:
    world.commit(1)
    with world.fair():
        remove(world)
        wait_until(lambda: not world.has_offsets(), "the offsets are gone")
