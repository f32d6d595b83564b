from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from oncelog.broker.metadata import keys
from oncelog.broker.metadata.controller import (
    NewTopic,
    Plan,
    ProducerIdBlock,
    TopicSelector,
    plan_allocate_producer_ids,
    plan_delete_topics,
)
from oncelog.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from oncelog.broker.metadata.runtime import MetadataRuntime
from oncelog.broker.metadata.store import Compare, HistoryTrimmed, MetadataStoreError, Put
from oncelog.broker.metadata.stores.sqlite import SqliteStore
from tests.broker.metadata.images import plan_topics

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from oncelog.broker.metadata.store import Change

REGISTRATION = Put("/brokers/1", keys.encode_broker(None, {}))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "metadata.sqlite")
    await store.transact([], [REGISTRATION])
    yield store
    await store.close()


@pytest.fixture
async def runtime(store: SqliteStore) -> AsyncIterator[MetadataRuntime]:
    runtime = MetadataRuntime(store)
    await runtime.start()
    yield runtime
    await runtime.close()


async def create(runtime: MetadataRuntime, *names: str) -> list[int]:
    results = await runtime.change(lambda image: plan_topics(image, *map(NewTopic, names)))
    return [result.outcome.code for result in results]


async def delete(runtime: MetadataRuntime, name: str) -> int:
    (result,) = await runtime.change(lambda image: plan_delete_topics(image, [TopicSelector(name)]))
    return result.outcome.code


async def test_start_loads_what_is_stored(store: SqliteStore) -> None:
    first = MetadataRuntime(store)
    seen: list[tuple[MetadataImage, MetadataImage]] = []
    first.subscribe(lambda old, new: seen.append((old, new)))
    await first.start()
    assert set(first.image.brokers) == {1}
    assert seen == [(EMPTY_IMAGE, first.image)]
    await create(first, "t")
    await first.close()
    second = MetadataRuntime(store)
    await second.start()
    assert second.image == first.image
    await second.close()


async def test_a_change_is_in_the_image_and_heard_when_it_returns(runtime: MetadataRuntime) -> None:
    heard: list[set[str]] = []
    runtime.subscribe(lambda old, new: heard.append(set(new.topics) - set(old.topics)))
    assert await create(runtime, "t", "u") == [0, 0]
    assert set(runtime.image.topics) == {"t", "u"}
    assert heard == [{"t", "u"}]
    assert await create(runtime, "t") == [36]
    assert await delete(runtime, "t") == 0
    assert runtime.image.topic("t") is None
    assert heard == [{"t", "u"}, set()]


async def test_the_image_equals_a_listing(store: SqliteStore, runtime: MetadataRuntime) -> None:
    for name in "abc":
        await create(runtime, name)
    await delete(runtime, "b")
    assert runtime.image == MetadataImage.from_snapshot(await store.list("/"))


async def test_many_concurrent_changes(runtime: MetadataRuntime) -> None:
    outcomes = await asyncio.gather(*(create(runtime, f"t{n % 10}") for n in range(40)))
    assert sorted(outcomes) == [[0]] * 10 + [[36]] * 30
    assert len(runtime.image.topics) == 10


async def test_two_runtimes_on_one_store_plan_again_after_a_conflict(store: SqliteStore) -> None:
    runtimes = [MetadataRuntime(store) for _ in range(3)]
    for runtime in runtimes:
        await runtime.start()
    blocks = await asyncio.gather(
        *(runtime.change(plan_allocate_producer_ids) for runtime in runtimes for _ in range(10))
    )
    assert sorted(blocks) == [ProducerIdBlock(n * 1000, 1000) for n in range(30)]
    created = await asyncio.gather(*(create(runtime, "same") for runtime in runtimes))
    assert sorted(created) == [[0], [36], [36]]
    for runtime in runtimes:
        await runtime.close()


async def test_a_change_by_others_arrives(store: SqliteStore, runtime: MetadataRuntime) -> None:
    arrived = asyncio.Event()
    runtime.subscribe(lambda _old, new: arrived.set() if new.cluster_id == "c" else None)
    await store.transact([], [Put(keys.CLUSTER, keys.encode_cluster("c"))])
    await asyncio.wait_for(arrived.wait(), 10)


async def test_a_cancelled_change_leaves_the_runtime_well(runtime: MetadataRuntime) -> None:
    for n in range(20):
        changing = asyncio.create_task(create(runtime, f"t{n}"))
        for _ in range(n % 5):
            await asyncio.sleep(0)
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)
        assert await create(runtime, f"t{n}") in ([0], [36])
    assert len(runtime.image.topics) == 20


async def test_an_error_of_the_plan_reaches_the_caller(runtime: MetadataRuntime) -> None:
    def broken(_image: MetadataImage) -> Plan[Any]:
        raise KeyError("broken")

    with pytest.raises(KeyError):
        await runtime.change(broken)
    assert await create(runtime, "t") == [0]


async def test_a_listener_that_raises_stops_the_runtime(store: SqliteStore) -> None:
    failures: list[Exception] = []
    runtime = MetadataRuntime(store, failures.append)
    await runtime.start()

    def broken(_old: MetadataImage, _new: MetadataImage) -> None:
        raise OSError("no space")

    runtime.subscribe(broken)
    for _ in range(2):
        with pytest.raises(MetadataStoreError, match="no space"):
            await create(runtime, "t")
    assert [str(error) for error in failures] == ["no space"]
    await runtime.close()


async def test_an_unreadable_value_stops_the_runtime(store: SqliteStore) -> None:
    failed = asyncio.get_running_loop().create_future()
    runtime = MetadataRuntime(store, failed.set_result)
    await runtime.start()
    await store.transact([], [Put("/topics/t", b"?")])
    assert isinstance(await asyncio.wait_for(failed, 10), MetadataStoreError)
    await runtime.close()


async def test_a_store_that_closes_stops_the_runtime(store: SqliteStore) -> None:
    failed = asyncio.get_running_loop().create_future()
    runtime = MetadataRuntime(store, failed.set_result)
    await runtime.start()
    await create(runtime, "t")
    await store.close()
    assert isinstance(await asyncio.wait_for(failed, 10), MetadataStoreError)
    with pytest.raises(MetadataStoreError):
        await create(runtime, "u")
    await runtime.close()


class DeafStore(SqliteStore):
    """Its watch never says anything."""

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Change, None]:
        await asyncio.Event().wait()
        async for change in super().watch(prefix, from_revision):
            yield change


async def test_close_fails_whoever_still_waits(tmp_path: Path) -> None:
    store = await DeafStore.open(tmp_path / "m")
    await store.transact([], [REGISTRATION])
    runtime = MetadataRuntime(store)
    await runtime.start()
    waiting = asyncio.create_task(create(runtime, "t"))
    while await store.get("/topics/t") is None:
        await asyncio.sleep(0)
    assert not waiting.done()
    await runtime.close()
    with pytest.raises(MetadataStoreError, match="stopping"):
        await waiting
    with pytest.raises(MetadataStoreError, match="stopping"):
        await create(runtime, "u")
    await store.close()


async def test_a_plan_that_rests_on_no_image_is_our_mistake(runtime: MetadataRuntime) -> None:
    with pytest.raises(AssertionError):
        await runtime.change(lambda _image: Plan(None, [Put("/x", b"")], [Compare("/x", 99)]))


class ForgetfulStore(SqliteStore):
    """Its history is trimmed under the first watch."""

    forgot = False

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Change, None]:
        if not self.forgot:
            self.forgot = True
            await self.transact([], [Put(keys.CLUSTER, keys.encode_cluster("missed"))])
            raise HistoryTrimmed
        async for change in super().watch(prefix, from_revision):
            yield change


async def test_trimmed_history_makes_the_runtime_list_again(tmp_path: Path) -> None:
    store = await ForgetfulStore.open(tmp_path / "m")
    runtime = MetadataRuntime(store)
    listed = asyncio.Event()
    await runtime.start()
    runtime.subscribe(lambda _old, _new: listed.set())
    await asyncio.wait_for(listed.wait(), 10)
    assert runtime.image.cluster_id == "missed"
    await runtime.close()
    await store.close()


async def test_an_idle_runtime_does_nothing(store: SqliteStore, runtime: MetadataRuntime) -> None:
    await create(runtime, "t")
    await store.get("/")
    loop = asyncio.get_running_loop()
    calls = []
    original = loop.run_in_executor
    loop.run_in_executor = lambda *args: calls.append(args) or original(*args)  # type: ignore[method-assign]
    try:
        await asyncio.sleep(0.1)
    finally:
        loop.run_in_executor = original  # type: ignore[method-assign]
    assert calls == []
