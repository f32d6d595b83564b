"""Hands out producer ids from blocks that the metadata store grants, the next block before the last id is
gone."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.metadata.plans.cluster import PRODUCER_IDS_PER_BLOCK, plan_allocate_producer_ids
from oncelog.broker.metadata.store import MetadataStoreError
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.metadata.plans.cluster import ProducerIdBlock
    from oncelog.broker.metadata.runtime import MetadataRuntime


class ProducerIdAllocator:
    """Takes its first block when the first id is wanted: a broker without producers writes nothing."""

    def __init__(self, metadata: MetadataRuntime, block_size: int = PRODUCER_IDS_PER_BLOCK) -> None:
        self._metadata = metadata
        self._block_size = block_size
        self._prefetch_below = block_size // 10
        self._next = 0
        self._end = 0
        self._fetching: asyncio.Task[ProducerIdBlock] | None = None

    async def next_id(self) -> int:
        """An id that nobody got before. If the store grants no block, the client is to try again, as in Kafka."""
        while self._next == self._end:
            try:
                await self._take_block()
            except MetadataStoreError as error:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer id yet: {error}") from error
        producer_id = self._next
        self._next += 1
        if self._end - self._next < self._prefetch_below:
            self._fetch()
        return producer_id

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    async def _take_block(self) -> None:
        """Several callers can wait here for one block; the first one to wake up installs it."""
        fetching = self._fetch()
        # Shielded, because a caller that goes away must not take the block from the others.
        block = await asyncio.shield(fetching)
        if self._fetching is fetching:
            self._fetching = None
            self._next, self._end = block.first, block.first + block.size

    def _fetch(self) -> asyncio.Task[ProducerIdBlock]:
        if self._fetching is None or _has_failed(self._fetching):
            plan = partial(plan_allocate_producer_ids, size=self._block_size)
            self._fetching = asyncio.create_task(self._metadata.change(plan), name="producer-ids")
            self._fetching.add_done_callback(_retrieve)
        return self._fetching


def _has_failed(fetching: asyncio.Task[ProducerIdBlock]) -> bool:
    return fetching.done() and (fetching.cancelled() or fetching.exception() is not None)


def _retrieve(fetching: asyncio.Task[ProducerIdBlock]) -> None:
    # A prefetch that failed is tried again by the caller who needs its block; asyncio need not report it.
    if not fetching.cancelled():
        fetching.exception()
