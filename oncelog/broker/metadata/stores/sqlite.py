"""The embedded metadata store: SQLite behind one worker thread, so that no sync to disk stops the event
loop.

The thread runs one operation at a time in the order of the calls. After each commit it tells the loop the
new revision, before the writer gets its answer; a watch wakes up by that and reads the history, the same
way whether it follows the present or resumes from the past. Nothing runs while nothing changes.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from oncelog.broker.metadata.store import LeaseExpired, MetadataStore, MetadataStoreError
from oncelog.broker.metadata.stores.sqlite_database import SqliteDatabase

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from _typeshed import StrPath

    from oncelog.broker.metadata.store import Change, Compare, Entry, Snapshot, Write

P = ParamSpec("P")
T = TypeVar("T")


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class SqliteStore(MetadataStore):
    """Made by `await SqliteStore.open(path)`; `clock_ms` measures leases and never goes back."""

    def __init__(self, database: SqliteDatabase, executor: ThreadPoolExecutor, clock_ms: Callable[[], int]) -> None:
        self._database = database
        self._executor = executor
        self._clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._revision = 0
        self._wakeups: set[asyncio.Future[None]] = set()
        self._ttl_ms: dict[int, int] = {}
        self._deadline_ms: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._expiring: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, path: StrPath, clock_ms: Callable[[], int] = monotonic_ms) -> SqliteStore:
        """Opens or creates the file; MetadataStoreError if it is damaged, in use or cannot be written."""
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata-store")
        database = SqliteDatabase(path)
        store = cls(database, executor, clock_ms)
        try:
            await store._run(database.open)
            store._ttl_ms = await store._run(database.leases)
        except BaseException:
            executor.shutdown(wait=False)
            raise
        store._revision = database.revision
        for lease in store._ttl_ms:
            store._extend(lease)
        return store

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._wake()
        await asyncio.shield(self._loop.run_in_executor(self._executor, self._database.close))
        self._executor.shutdown(wait=False)

    async def get(self, key: str) -> Entry | None:
        return await self._run(self._database.get, key)

    async def list(self, prefix: str) -> Snapshot:
        return await self._run(self._database.list, prefix)

    async def transact(self, compares: Sequence[Compare], writes: Sequence[Write]) -> int:
        return await self._run(self._publishing, self._database.transact, compares, writes)

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Change, None]:
        revision = from_revision
        while True:
            changes, revision = await self._run(self._database.changes, prefix, revision)
            for change in changes:
                yield change
            while self._revision < revision and not (self._closed or self._database.failure):
                await self._next_change()
            if self._closed:
                return

    async def grant_lease(self, ttl_ms: int) -> int:
        lease = await self._run(self._database.grant_lease, ttl_ms)
        self._ttl_ms[lease] = ttl_ms
        self._extend(lease)
        return lease

    async def keep_alive(self, lease: int) -> None:
        await self.expire_leases()
        if lease not in self._deadline_ms:
            raise LeaseExpired(f"lease {lease} has ended")
        self._extend(lease)

    async def revoke_lease(self, lease: int) -> None:
        if self._deadline_ms.pop(lease, None) is None:
            raise LeaseExpired(f"lease {lease} has ended")
        await self._end_lease(lease)

    async def expire_leases(self) -> None:
        """Ends the leases whose time is over now; a timer calls it, and tests that moved their clock."""
        now_ms = self._clock_ms()
        overdue = [lease for lease, deadline_ms in self._deadline_ms.items() if deadline_ms <= now_ms]
        for lease in overdue:
            del self._deadline_ms[lease]
        for lease in overdue:
            await self._end_lease(lease)
        self._arm_timer()

    async def _end_lease(self, lease: int) -> None:
        del self._ttl_ms[lease]
        await self._run(self._publishing, self._database.end_lease, lease)

    def _extend(self, lease: int) -> None:
        self._deadline_ms[lease] = self._clock_ms() + self._ttl_ms[lease]
        self._arm_timer()

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deadline_ms and not self._closed:
            delay_ms = max(0, min(self._deadline_ms.values()) - self._clock_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self._start_expiring)

    def _start_expiring(self) -> None:
        self._expiring = self._loop.create_task(self._expire_in_background())

    async def _expire_in_background(self) -> None:
        # A store that fails here fails its next caller too, who can say so to somebody.
        with suppress(MetadataStoreError):
            await self.expire_leases()

    async def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise MetadataStoreError("the metadata store is closed")
        try:
            return await self._loop.run_in_executor(self._executor, lambda: function(*args, **kwargs))
        finally:
            if self._database.failure is not None:
                # Those who watch are to know as well.
                self._wake()

    def _publishing(self, function: Callable[P, int], *args: P.args, **kwargs: P.kwargs) -> int:
        # From the worker's thread, so that a change is announced even if its caller was cancelled meanwhile.
        revision = function(*args, **kwargs)
        self._loop.call_soon_threadsafe(self._advance, revision)
        return revision

    def _advance(self, revision: int) -> None:
        if revision > self._revision:
            self._revision = revision
            self._wake()

    async def _next_change(self) -> None:
        wakeup: asyncio.Future[None] = self._loop.create_future()
        self._wakeups.add(wakeup)
        try:
            await wakeup
        finally:
            self._wakeups.discard(wakeup)

    def _wake(self) -> None:
        for wakeup in self._wakeups:
            if not wakeup.done():
                wakeup.set_result(None)
