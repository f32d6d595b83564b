from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from oncelog.broker.metadata.store import Compare, HistoryTrimmed, MetadataStoreError, Put
from oncelog.broker.metadata.stores import sqlite_database
from oncelog.broker.metadata.stores.sqlite import SqliteStore
from oncelog.broker.metadata.stores.sqlite_database import HISTORY_REVISIONS_MAX, WRITES_PER_CHECKPOINT
from tests.broker.metadata.store_contract import StoreContract, take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from oncelog.broker.metadata.store import MetadataStore


class SqliteStores:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ms = 0
        self.opened: list[SqliteStore] = []

    async def open(self) -> SqliteStore:
        store = await SqliteStore.open(self.path, lambda: self.now_ms)
        self.opened.append(store)
        return store

    async def advance(self, store: MetadataStore, duration_ms: int) -> None:
        assert isinstance(store, SqliteStore)
        self.now_ms += duration_ms
        await store.expire_leases()


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[SqliteStores]:
    stores = SqliteStores(tmp_path / "metadata.sqlite")
    yield stores
    for store in stores.opened:
        await store.close()


class TestSqliteStore(StoreContract):
    """The contract, on SQLite."""


async def test_a_lease_expires_by_its_own_timer(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "m")
    lease = await store.grant_lease(20)
    revision = await store.transact([], [Put("/a", b"", lease)])
    (change,) = await asyncio.wait_for(take(store, "/", revision + 1, 1), 10)
    assert change.events[0].value is None
    await store.close()


async def test_the_file_is_for_its_owner_only(stores: SqliteStores) -> None:
    store = await stores.open()
    await store.put_if("/a", b"", 0)
    for path in stores.path.parent.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path


async def test_history_is_trimmed_and_says_so(stores: SqliteStores) -> None:
    store = await stores.open()
    for n in range(HISTORY_REVISIONS_MAX + 5):
        await store.transact([], [Put("/a", b"%d" % n)])
    with pytest.raises(HistoryTrimmed):
        await take(store, "/", 5, 1)
    changes = await take(store, "/", 6, HISTORY_REVISIONS_MAX)
    assert [change.revision for change in changes] == list(range(6, HISTORY_REVISIONS_MAX + 6))


async def test_the_loop_runs_while_the_worker_waits(stores: SqliteStores) -> None:
    store = await stores.open()
    holding, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        loop.call_soon_threadsafe(holding.set)
        release.wait(10)

    holder = loop.run_in_executor(store._executor, hold)
    await holding.wait()
    write = asyncio.create_task(store.put_if("/a", b"", 0))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not write.done()
    release.set()
    await holder
    assert await write == 1


def damage_table(path: Path, table: str) -> None:
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * page_size)
        file.write(b"\xff" * page_size)


def fail_sync(*_: object) -> Any:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    raise error


def open_in_another_process(path: Path) -> str:
    program = (
        "import asyncio, pathlib, sys\n"
        "from oncelog.broker.metadata.stores.sqlite import SqliteStore\n"
        "try: asyncio.run(SqliteStore.open(pathlib.Path(sys.argv[1])))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def test_the_write_ahead_log_does_not_grow_for_ever(stores: SqliteStores) -> None:
    store = await stores.open()
    log = stores.path.with_name(stores.path.name + "-wal")
    sizes = []
    for n in range(40):
        await store.transact([], [Put(f"/{n % 2}/{i}", bytes(100)) for i in range(WRITES_PER_CHECKPOINT // 10)])
        sizes.append(log.stat().st_size)
    assert sizes[-1] == sizes[15]


class TestFailures:
    async def fails(self, path: Path, *words: str) -> None:
        with pytest.raises(MetadataStoreError) as caught:
            await SqliteStore.open(path)
        message = str(caught.value)
        assert "\n" not in message
        assert str(path) in message
        for word in words:
            assert word in message

    async def test_garbage(self, tmp_path: Path) -> None:
        path = tmp_path / "m"
        path.write_bytes(b"not a database" * 1000)
        await self.fails(path, "not a metadata store")

    async def test_another_programs_database(self, tmp_path: Path) -> None:
        path = tmp_path / "m"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE t (x)")
        connection.close()
        await self.fails(path, "another program")

    async def test_a_newer_format(self, stores: SqliteStores) -> None:
        await (await stores.open()).close()
        connection = sqlite3.connect(stores.path)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        await self.fails(stores.path, "format 99")

    async def test_in_use_by_another_process(self, stores: SqliteStores) -> None:
        await stores.open()
        said = await asyncio.to_thread(open_in_another_process, stores.path)
        assert said.startswith("MetadataStoreError")
        assert "in use by another process" in said

    async def test_a_missing_directory(self, tmp_path: Path) -> None:
        await self.fails(tmp_path / "absent" / "m", "No such file or directory")

    async def test_a_directory_in_its_place(self, tmp_path: Path) -> None:
        await self.fails(tmp_path, "Is a directory")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
    async def test_a_file_that_cannot_be_written(self, tmp_path: Path) -> None:
        path = tmp_path / "m"
        path.touch(0o400)
        await self.fails(path, "Permission denied")

    async def test_a_damaged_page_stops_the_store(self, stores: SqliteStores) -> None:
        store = await stores.open()
        for n in range(200):
            await store.transact([], [Put(f"/{n}", bytes(500))])
        await store.close()
        damage_table(stores.path, "entries")
        store = await stores.open()
        with pytest.raises(MetadataStoreError, match="damaged"):
            await store.list("/")
        with pytest.raises(MetadataStoreError, match="damaged"):
            await store.transact([], [])

    async def test_a_full_disk_refuses_the_write_and_goes_on(self, stores: SqliteStores) -> None:
        store = await stores.open()
        connection = store._database._connection
        pages = await store._run(lambda: connection.execute("PRAGMA page_count").fetchone()[0])
        await store._run(lambda: connection.execute(f"PRAGMA max_page_count = {pages}"))
        with pytest.raises(MetadataStoreError, match="disk is full"):
            await store.put_if("/a", bytes(100_000), 0)
        assert await store.get("/a") is None
        await store._run(lambda: connection.execute("PRAGMA max_page_count = 100000"))
        assert await store.put_if("/a", bytes(100_000), 0) == 1

    def test_a_write_that_the_system_refuses(self, tmp_path: Path) -> None:
        """As beyond a quota. SQLite calls it an input/output error, but nothing is in doubt."""
        program = (
            "import asyncio, resource, signal, sys\n"
            "from oncelog.broker.metadata.stores.sqlite import SqliteStore\n"
            "async def main():\n"
            "    store = await SqliteStore.open(sys.argv[1])\n"
            "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))\n"
            "    try: await store.put_if('/a', bytes(100_000), 0)\n"
            "    except Exception as error: print(type(error).__name__, error)\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
            "    assert await store.get('/a') is None\n"
            "    print(await store.put_if('/a', bytes(100_000), 0))\n"
            "    await store.close()\n"
            "asyncio.run(main())\n"
        )
        command = [sys.executable, "-c", program, str(tmp_path / "m")]
        refused, done = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        assert refused.startswith("MetadataStoreError metadata store")
        assert "the system refuses it" in refused
        assert done == "1"

    async def test_a_failed_sync_ends_the_store_for_everybody(
        self, stores: SqliteStores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await stores.open()
        watching = asyncio.create_task(take(store, "/", 1, 1))
        while not store._wakeups:
            await asyncio.sleep(0.001)
        monkeypatch.setattr(store._database, "_write", fail_sync)
        with pytest.raises(MetadataStoreError, match="input/output error"):
            await store.put_if("/a", b"", 0)
        with pytest.raises(MetadataStoreError, match="input/output error"):
            await watching
        monkeypatch.undo()
        with pytest.raises(MetadataStoreError, match="input/output error"):
            await store.put_if("/a", b"", 0)

    async def test_a_failed_sync_of_the_database_ends_the_store(
        self, stores: SqliteStores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The transaction that happened to come then is in the write-ahead log, and succeeds."""
        store = await stores.open()
        monkeypatch.setattr(sqlite_database, "WRITES_PER_CHECKPOINT", 2)
        row = store._database._row

        def fail_checkpoint(statement: str, *parameters: object) -> Any:
            return fail_sync() if "checkpoint" in statement else row(statement, *parameters)

        monkeypatch.setattr(store._database, "_row", fail_checkpoint)
        assert await store.put_if("/a", b"", 0) == 1
        assert await store.put_if("/b", b"", 0) == 2
        with pytest.raises(MetadataStoreError, match="input/output error"):
            await store.get("/a")
        await store.close()
        monkeypatch.undo()
        assert len((await (await stores.open()).list("/")).entries) == 2

    async def test_a_closed_store(self, stores: SqliteStores) -> None:
        store = await stores.open()
        await store.close()
        with pytest.raises(MetadataStoreError, match="closed"):
            await store.get("/a")


WRITER = """
import asyncio, pathlib, sys
from oncelog.broker.metadata.stores.sqlite import SqliteStore
from oncelog.broker.metadata.store import Put

async def main():
    store = await SqliteStore.open(pathlib.Path(sys.argv[1]))
    start = (await store.list("/")).revision
    for n in range(start + 1, 1_000_000):
        value = b"%d" % n
        writes = [Put("/left", value), Put(f"/k{n % 7}", value), Put("/right", value)]
        revision = await store.transact([], writes)
        print(revision, n, flush=True)

asyncio.run(main())
"""


def write_until_killed(path: Path, acked_min: int) -> list[str]:
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acked = [writer.stdout.readline() for _ in range(acked_min)]
        writer.send_signal(signal.SIGKILL)
        return acked + writer.stdout.readlines()


async def test_kill_9_loses_no_acknowledged_transaction(stores: SqliteStores) -> None:
    for round_number in range(4):
        acked = await asyncio.to_thread(write_until_killed, stores.path, 20 + 13 * round_number)
        last_revision, last_value = (int(word) for word in acked[-1].split())
        assert last_revision == last_value
        store = await stores.open()
        snapshot = await store.list("/")
        values = {entry.key: int(entry.value) for entry in snapshot.entries}
        # The transaction in flight may have happened too, but then wholly.
        assert snapshot.revision in (last_revision, last_revision + 1)
        assert values["/left"] == values["/right"] == snapshot.revision
        assert max(values[key] for key in values if key.startswith("/k")) == snapshot.revision
        changes = await take(store, "/left", 1, snapshot.revision)
        assert [int(event.value or b"") for change in changes for event in change.events] == list(
            range(1, snapshot.revision + 1)
        )
        await store.close()


async def test_opening_is_quick(stores: SqliteStores) -> None:
    store = await stores.open()
    await store.transact([Compare("/a", 0)], [Put(f"/topics/{n}", bytes(100)) for n in range(1000)])
    await store.close()
    durations_ms = []
    for _ in range(5):
        started = time.perf_counter()
        store = await stores.open()
        durations_ms.append((time.perf_counter() - started) * 1000)
        await store.close()
    # Measured 2 ms; the bound leaves room for a busy machine.
    assert min(durations_ms) < 15
