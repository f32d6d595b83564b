from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from oncelog.broker.metadata.producer_ids import ProducerIdAllocator
from oncelog.broker.metadata.runtime import MetadataRuntime
from oncelog.broker.metadata.store import MetadataStoreError
from oncelog.broker.metadata.stores.sqlite import SqliteStore
from oncelog.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[MetadataRuntime]:
    store = await SqliteStore.open(tmp_path / "metadata.sqlite")
    runtime = MetadataRuntime(store)
    await runtime.start()
    yield runtime
    await runtime.close()
    await store.close()


async def test_ids_follow_each_other_across_blocks(runtime: MetadataRuntime) -> None:
    allocator = ProducerIdAllocator(runtime, block_size=10)
    assert [await allocator.next_id() for _ in range(35)] == list(range(35))
    await allocator.close()


async def test_no_block_is_taken_before_the_first_id(runtime: MetadataRuntime) -> None:
    allocator = ProducerIdAllocator(runtime)
    await allocator.close()
    assert runtime.image.producer_id_next == 0


async def test_many_callers_share_blocks_and_never_an_id(runtime: MetadataRuntime) -> None:
    allocators = [ProducerIdAllocator(runtime, block_size=7) for _ in range(2)]
    ids = await asyncio.gather(*(allocators[n % 2].next_id() for n in range(200)))
    assert len(set(ids)) == 200
    for allocator in allocators:
        await allocator.close()
    assert runtime.image.producer_id_next < 200 + 2 * 2 * 7


async def test_the_next_block_is_fetched_before_it_is_needed(runtime: MetadataRuntime) -> None:
    allocator = ProducerIdAllocator(runtime, block_size=20)
    fetched = asyncio.Event()
    runtime.subscribe(lambda _old, new: fetched.set() if new.producer_id_next == 40 else None)
    for _ in range(18):
        await allocator.next_id()
    assert not fetched.is_set()
    await allocator.next_id()
    await asyncio.wait_for(fetched.wait(), 10)
    assert [await allocator.next_id() for _ in range(2)] == [19, 20]
    await allocator.close()


async def test_a_new_allocator_never_reuses_a_block(runtime: MetadataRuntime) -> None:
    first = ProducerIdAllocator(runtime)
    assert await first.next_id() == 0
    await first.close()
    second = ProducerIdAllocator(runtime)
    assert await second.next_id() == 1000
    await second.close()


async def test_a_cancelled_caller_takes_no_block_from_the_others(runtime: MetadataRuntime) -> None:
    allocator = ProducerIdAllocator(runtime)
    impatient = asyncio.create_task(allocator.next_id())
    patient = asyncio.create_task(allocator.next_id())
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == 0
    await allocator.close()


async def test_a_failure_reaches_the_caller_and_is_tried_again(
    runtime: MetadataRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocator = ProducerIdAllocator(runtime)
    with monkeypatch.context() as broken:

        async def fail(_plan: object) -> None:
            raise MetadataStoreError("the disk is full")

        broken.setattr(runtime, "change", fail)
        for _ in range(2):
            with pytest.raises(KafkaError, match=r"COORDINATOR_LOAD_IN_PROGRESS: .*the disk is full"):
                await allocator.next_id()
    assert await allocator.next_id() == 0
    await allocator.close()
