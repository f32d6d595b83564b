"""Keeps the image of the cluster's metadata up to date, and carries out the controller's plans.

There is one path by which anything reaches the image: the store's watch. A change that this broker makes
goes to the store, comes back through the watch like everybody's, and its maker waits for that. So listeners
see every change exactly once and in order, whoever made it, and a broker alone is no special case.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeVar

from oncelog.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from oncelog.broker.metadata.keys import ROOT
from oncelog.broker.metadata.store import Conflict, HistoryTrimmed, MetadataStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncelog.broker.metadata.plans.plan import Plan
    from oncelog.broker.metadata.store import Compare, MetadataStore

    Listener = Callable[[MetadataImage, MetadataImage], None]
    """Gets the image before and the one after. It deals with its own failures: raising stops the runtime."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


def log_failure(error: Exception) -> None:
    logger.critical("cannot follow the metadata store: %s", error)


class MetadataRuntime:
    """`on_failure` is called once if the image cannot follow the store any more; the broker should then stop."""

    def __init__(self, store: MetadataStore, on_failure: Callable[[Exception], None] = log_failure) -> None:
        self.image = EMPTY_IMAGE
        self._store = store
        self._on_failure = on_failure
        self._failure: str | None = None
        self._refusal: str | None = None
        """Why the store refuses changes, as it was logged."""
        self._listeners: list[Listener] = []
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._changing = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    def subscribe(self, listener: Listener) -> None:
        """Listeners run in the order of their subscription; before `start`, one also gets the first image."""
        self._listeners.append(listener)

    async def start(self) -> None:
        await self._load()
        self._watching = asyncio.create_task(self._watch(), name="metadata-watch")

    async def close(self) -> None:
        """Stops following; the store stays open, since it is not ours."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        self._fail("the broker is stopping")

    async def change(self, plan_function: Callable[[MetadataImage], Plan[T]]) -> T:
        """Plans on the newest image until the store takes the plan; the image includes it on return.

        A call that was cancelled, or failed with MetadataStoreError, may still take effect. Changes of one
        broker run one after the other: at most one of several plans on the same image could win anyway.
        """
        async with self._changing:
            while True:
                self._check_following()
                plan = plan_function(self.image)
                if not plan.writes:
                    return plan.results
                # Else the plan would conflict for ever.
                assert all(self.image.revision_of(key) == revision for key, revision in plan.compares)
                try:
                    revision = await self._store.transact(plan.compares, plan.writes)
                except Conflict as conflict:
                    await self._wait_until_differs(conflict.failed)
                except MetadataStoreError as error:
                    self._note_refusal(str(error))
                    raise
                else:
                    self._note_refusal(None)
                    await self._wait_until_includes(revision)
                    return plan.results

    async def _load(self) -> None:
        snapshot = await self._store.list(ROOT)
        self._advance(MetadataImage.from_snapshot(snapshot))

    async def _watch(self) -> None:
        try:
            while True:
                with suppress(HistoryTrimmed):
                    async with aclosing(self._store.watch(ROOT, self.image.revision + 1)) as changes:
                        async for change in changes:
                            if logger.isEnabledFor(logging.DEBUG):
                                keys = ", ".join(event.key for event in change.events)
                                logger.debug("metadata revision %d changes %s", change.revision, keys)
                            self._advance(self.image.apply(change.events))
                    raise MetadataStoreError("the metadata store was closed")
                await self._load()
        except Exception as error:
            self._fail(f"the broker cannot follow the metadata store: {error}")
            self._on_failure(error)

    def _advance(self, image: MetadataImage) -> None:
        former, self.image = self.image, image
        for listener in self._listeners:
            listener(former, image)
        for is_met, waiter in self._waiters:
            if not waiter.done() and is_met():
                waiter.set_result(None)

    async def _wait_until_differs(self, stale: Compare) -> None:
        await self._wait_until(lambda: self.image.revision_of(stale.key) != stale.revision)

    async def _wait_until_includes(self, revision: int) -> None:
        await self._wait_until(lambda: self.image.revision >= revision)

    async def _wait_until(self, is_met: Callable[[], bool]) -> None:
        if is_met():
            return
        self._check_following()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (is_met, waiter)
        self._waiters.append(entry)
        try:
            await waiter
        finally:
            self._waiters.remove(entry)

    def _note_refusal(self, reason: str | None) -> None:
        """Logs when changes begin to fail and when they succeed again, not each of them."""
        if reason != self._refusal:
            self._refusal = reason
            if reason is None:
                logger.warning("topics and settings can be changed again")
            else:
                logger.error("topics and settings cannot be changed for now: %s", reason)

    def _check_following(self) -> None:
        if self._failure is not None:
            raise MetadataStoreError(self._failure)

    def _fail(self, reason: str) -> None:
        self._failure = reason
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(MetadataStoreError(reason))
