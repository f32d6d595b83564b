"""What every metadata store keeps; a store's tests derive from StoreContract and have a `stores` fixture."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

import pytest

from oncelog.broker.metadata.store import (
    Change,
    Compare,
    Conflict,
    Delete,
    Entry,
    Event,
    LeaseExpired,
    MetadataStore,
    Put,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

TTL_MS = 60_000


class Stores(Protocol):
    """Where a test gets its store from."""

    async def open(self) -> MetadataStore:
        """A store over the same data each time; the fixture closes it."""

    async def advance(self, store: MetadataStore, duration_ms: int) -> None:
        """Lets time pass for the leases, and returns when those that ended by it are gone."""


async def take(store: MetadataStore, prefix: str, from_revision: int, count: int) -> list[Change]:
    changes: list[Change] = []
    async with aclosing(store.watch(prefix, from_revision)) as watch:
        async for change in watch:
            changes.append(Change(change.revision, list(change.events)))
            if len(changes) == count:
                break
    return changes


def keys_of(entries: Sequence[Entry]) -> list[str]:
    return [entry.key for entry in entries]


class StoreContract:
    async def test_an_absent_key(self, stores: Stores) -> None:
        store = await stores.open()
        assert await store.get("/a") is None
        assert list((await store.list("/")).entries) == []

    async def test_a_put_is_read_back_with_its_revision(self, stores: Stores) -> None:
        store = await stores.open()
        value = bytes(range(256))
        revision = await store.put_if("/a", value, 0)
        assert revision > 0
        assert await store.get("/a") == Entry("/a", value, revision)

    async def test_list_is_ordered_and_bounded_by_the_prefix(self, stores: Stores) -> None:
        store = await stores.open()
        names = ["/t/b", "/t/a", "/t", "/ta", "/t/\U0010fffe", "/s/z", "/u"]
        revision = await store.transact([], [Put(name, b"") for name in names])
        snapshot = await store.list("/t/")
        assert keys_of(snapshot.entries) == ["/t/a", "/t/b", "/t/\U0010fffe"]
        assert snapshot.revision == revision

    async def test_the_revision_of_an_entry_is_that_of_its_last_change(self, stores: Stores) -> None:
        store = await stores.open()
        first = await store.put_if("/a", b"1", 0)
        other = await store.put_if("/b", b"", 0)
        second = await store.put_if("/a", b"2", first)
        assert first < other < second
        assert await store.get("/a") == Entry("/a", b"2", second)
        assert await store.get("/b") == Entry("/b", b"", other)

    async def test_a_put_needs_the_expected_revision(self, stores: Stores) -> None:
        store = await stores.open()
        revision = await store.put_if("/a", b"1", 0)
        for wrong in (0, revision + 1):
            with pytest.raises(Conflict) as caught:
                await store.put_if("/a", b"2", wrong)
            assert caught.value.failed == Compare("/a", wrong)
        with pytest.raises(Conflict):
            await store.put_if("/absent", b"2", revision)
        assert await store.get("/a") == Entry("/a", b"1", revision)
        assert await store.get("/absent") is None

    async def test_a_delete_needs_the_expected_revision(self, stores: Stores) -> None:
        store = await stores.open()
        revision = await store.put_if("/a", b"1", 0)
        with pytest.raises(Conflict):
            await store.delete_if("/a", revision - 1)
        assert await store.delete_if("/a", revision) > revision
        assert await store.get("/a") is None

    async def test_a_key_that_came_back_has_another_revision(self, stores: Stores) -> None:
        store = await stores.open()
        former = await store.put_if("/a", b"1", 0)
        await store.delete_if("/a", former)
        await store.put_if("/a", b"1", 0)
        with pytest.raises(Conflict):
            await store.delete_if("/a", former)

    async def test_a_transaction_is_all_or_nothing(self, stores: Stores) -> None:
        store = await stores.open()
        a = await store.put_if("/a", b"1", 0)
        b = await store.put_if("/b", b"1", 0)
        writes = [Put("/a", b"2"), Delete("/b"), Put("/c", b"2")]
        with pytest.raises(Conflict) as caught:
            await store.transact([Compare("/a", a), Compare("/b", b + 1), Compare("/c", 0)], writes)
        assert caught.value.failed == Compare("/b", b + 1)
        assert keys_of((await store.list("/")).entries) == ["/a", "/b"]
        revision = await store.transact([Compare("/a", a), Compare("/b", b), Compare("/c", 0)], writes)
        snapshot = await store.list("/")
        assert list(snapshot.entries) == [Entry("/a", b"2", revision), Entry("/c", b"2", revision)]

    async def test_compares_alone_check_and_write_nothing(self, stores: Stores) -> None:
        store = await stores.open()
        revision = await store.put_if("/a", b"1", 0)
        assert await store.transact([Compare("/a", revision), Compare("/b", 0)], []) == revision
        assert await store.transact([], [Delete("/b")]) == revision
        with pytest.raises(Conflict):
            await store.transact([Compare("/a", 0)], [])

    async def test_one_of_many_rivals_wins(self, stores: Stores) -> None:
        store = await stores.open()
        rivals = [store.put_if("/a", b"%d" % n, 0) for n in range(20)]
        outcomes = await asyncio.gather(*rivals, return_exceptions=True)
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 19

    async def test_everything_survives_reopening(self, stores: Stores) -> None:
        store = await stores.open()
        await store.put_if("/a", b"1", 0)
        revision = await store.put_if("/b", b"2", 0)
        before = await store.list("/")
        await store.close()
        store = await stores.open()
        assert await store.list("/") == before
        assert await store.put_if("/c", b"3", 0) > revision

    async def test_a_watch_gives_the_past_and_then_the_present(self, stores: Stores) -> None:
        store = await stores.open()
        first = await store.put_if("/a", b"1", 0)
        watching = asyncio.create_task(take(store, "/", first, 3))
        second = await store.put_if("/a", b"2", first)
        third = await store.delete_if("/a", second)
        assert await watching == [
            Change(first, [Event("/a", b"1", first)]),
            Change(second, [Event("/a", b"2", second)]),
            Change(third, [Event("/a", None, third)]),
        ]

    async def test_a_watch_from_the_next_revision_gives_only_what_follows(self, stores: Stores) -> None:
        store = await stores.open()
        await store.put_if("/a", b"1", 0)
        snapshot = await store.list("/")
        watching = asyncio.create_task(take(store, "/", snapshot.revision + 1, 1))
        await asyncio.sleep(0)
        revision = await store.put_if("/b", b"1", 0)
        assert await watching == [Change(revision, [Event("/b", b"1", revision)])]

    async def test_a_watch_gives_a_transaction_whole(self, stores: Stores) -> None:
        store = await stores.open()
        old = await store.put_if("/t/old", b"", 0)
        revision = await store.transact([], [Put("/t/a", b"1"), Put("/other", b""), Delete("/t/old")])
        (change,) = await take(store, "/t/", old + 1, 1)
        assert change.revision == revision
        assert set(change.events) == {Event("/t/a", b"1", revision), Event("/t/old", None, revision)}

    async def test_a_watch_skips_other_prefixes_and_refused_transactions(self, stores: Stores) -> None:
        store = await stores.open()
        await store.put_if("/other", b"", 0)
        first = await store.put_if("/t/a", b"", 0)
        with pytest.raises(Conflict):
            await store.put_if("/t/a", b"", 0)
        await store.transact([], [Delete("/t/absent")])
        second = await store.put_if("/t/b", b"", 0)
        changes = await take(store, "/t/", 1, 2)
        assert [change.revision for change in changes] == [first, second]

    async def test_a_watch_resumes_without_gap_or_repetition(self, stores: Stores) -> None:
        store = await stores.open()
        revisions = [await store.put_if(f"/{n:03}", b"", 0) for n in range(250)]
        seen: list[int] = []
        while len(seen) < len(revisions):
            start = seen[-1] + 1 if seen else revisions[0]
            changes = await take(store, "/", start, min(70, len(revisions) - len(seen)))
            seen += [change.revision for change in changes]
        assert seen == revisions

    async def test_a_watch_resumes_after_reopening(self, stores: Stores) -> None:
        store = await stores.open()
        first = await store.put_if("/a", b"1", 0)
        second = await store.put_if("/b", b"2", 0)
        await store.close()
        store = await stores.open()
        assert await take(store, "/", first + 1, 1) == [Change(second, [Event("/b", b"2", second)])]

    async def test_several_watches_see_the_same(self, stores: Stores) -> None:
        store = await stores.open()
        base = (await store.list("/")).revision
        watches = [asyncio.create_task(take(store, "/", base + 1, 30)) for _ in range(3)]
        for n in range(30):
            await store.put_if(f"/{n}", b"", 0)
        first, *others = await asyncio.gather(*watches)
        assert all(other == first for other in others)
        assert [event.key for change in first for event in change.events] == [f"/{n}" for n in range(30)]

    async def test_a_change_is_watched_though_its_caller_was_cancelled(self, stores: Stores) -> None:
        store = await stores.open()
        base = (await store.list("/")).revision
        watching = asyncio.create_task(take(store, "/b", base + 1, 1))
        writing = asyncio.create_task(store.put_if("/a", b"", 0))
        await asyncio.sleep(0)
        writing.cancel()
        await store.put_if("/b", b"", 0)
        assert [event.key for change in await watching for event in change.events] == ["/b"]

    async def test_close_ends_a_watch(self, stores: Stores) -> None:
        store = await stores.open()
        await store.put_if("/a", b"", 0)
        started = asyncio.Event()

        async def follow() -> None:
            async with aclosing(store.watch("/", 1)) as watch:
                async for _ in watch:
                    started.set()

        watching = asyncio.create_task(follow())
        await started.wait()
        await store.close()
        await asyncio.wait_for(watching, 10)

    async def test_keys_vanish_with_their_lease(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await store.grant_lease(TTL_MS)
        revision = await store.transact([], [Put("/a", b"", lease), Put("/b", b"", lease), Put("/c", b"")])
        await stores.advance(store, TTL_MS - 1)
        assert keys_of((await store.list("/")).entries) == ["/a", "/b", "/c"]
        await stores.advance(store, 1)
        (change,) = await take(store, "/", revision + 1, 1)
        assert {(event.key, event.value) for event in change.events} == {("/a", None), ("/b", None)}
        assert keys_of((await store.list("/")).entries) == ["/c"]

    async def test_a_lease_lives_as_long_as_it_is_kept_alive(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await store.grant_lease(TTL_MS)
        await store.transact([], [Put("/a", b"", lease)])
        for _ in range(3):
            await stores.advance(store, TTL_MS - 1)
            await store.keep_alive(lease)
        assert await store.get("/a") is not None
        await stores.advance(store, TTL_MS)
        assert await store.get("/a") is None

    async def test_an_ended_lease_is_refused(self, stores: Stores) -> None:
        store = await stores.open()
        expired, revoked = await store.grant_lease(TTL_MS), await store.grant_lease(TTL_MS * 10)
        await store.transact([], [Put("/r", b"", revoked)])
        await stores.advance(store, TTL_MS)
        await store.revoke_lease(revoked)
        assert await store.get("/r") is None
        for lease in (expired, revoked):
            with pytest.raises(LeaseExpired):
                await store.keep_alive(lease)
            with pytest.raises(LeaseExpired):
                await store.transact([], [Put("/b", b""), Put("/a", b"", lease)])
            with pytest.raises(LeaseExpired):
                await store.revoke_lease(lease)
        assert await store.get("/b") is None

    async def test_a_put_without_the_lease_frees_the_key_from_it(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await store.grant_lease(TTL_MS)
        await store.transact([], [Put("/a", b"1", lease)])
        await store.transact([], [Put("/a", b"2")])
        await store.revoke_lease(lease)
        assert await store.get("/a") is not None

    async def test_a_lease_ends_after_reopening_too(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await store.grant_lease(TTL_MS)
        await store.transact([], [Put("/a", b"", lease)])
        await store.close()
        store = await stores.open()
        await store.keep_alive(lease)
        assert await store.get("/a") is not None
        await stores.advance(store, TTL_MS)
        assert await store.get("/a") is None
