"""The synchronous half of the embedded store: one SQLite file, used by one thread.

Tables of format 1:
    entries  key, value, revision of the last change, lease or NULL
    events   one row per key and transaction, value NULL for a deletion; the last revisions only
    leases   id, time to live; deadlines live in memory, so that keeping a lease alive writes nothing

The store's revision is that of the newest event, and every revision has at least one event, so neither
needs a counter of its own. The file is locked exclusively while it is open, which also spares the
shared-memory index of the write-ahead log. `synchronous=FULL` syncs the log at every commit: what
`transact` returned survives a power cut.

After a failed sync SQLite would go on, although nobody knows what is on disk. Here no call succeeds any more. SQLite
does not even report a sync that fails while it moves its log into the database by itself, so it is told when to do so.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any

from oncelog.broker.metadata.store import (
    ABSENT,
    Change,
    Conflict,
    Delete,
    Entry,
    Event,
    HistoryTrimmed,
    LeaseExpired,
    MetadataStoreError,
    Put,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import StrPath

    from oncelog.broker.metadata.store import Compare, Write

APPLICATION_ID = 0x4F4E4345
FORMAT_VERSION = 1
HISTORY_REVISIONS_MAX = 1000
# A watch that resumes far back reads the history in pieces, to bound what it holds in memory.
WATCH_REVISIONS_PER_READ = 100
WRITES_PER_CHECKPOINT = 1000

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE entries (
    key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL, revision INTEGER NOT NULL, lease INTEGER);
CREATE INDEX entries_of_lease ON entries (lease) WHERE lease IS NOT NULL;
CREATE TABLE events (revision INTEGER NOT NULL, key TEXT NOT NULL, value BLOB);
CREATE INDEX events_by_revision ON events (revision);
CREATE TABLE leases (id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_ms INTEGER NOT NULL);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
COMMIT;
"""

# After one of these the file is in doubt: a later commit could seem to work on top of a lost one.
_FATAL_CODES = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# A write that the system refuses, as beyond a quota, is rolled back like one on a full disk.
_REFUSED_WRITE = sqlite3.SQLITE_IOERR_WRITE
_REASONS = {
    sqlite3.SQLITE_BUSY: "is in use by another process",
    sqlite3.SQLITE_LOCKED: "is in use by another process",
    sqlite3.SQLITE_READONLY: "cannot be written",
    sqlite3.SQLITE_PERM: "cannot be written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_FULL: "cannot grow, the disk is full",
    sqlite3.SQLITE_IOERR: "failed with an input/output error",
    _REFUSED_WRITE: "cannot be written, as the system refuses it (is a quota exceeded?)",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is not a metadata store (or is damaged)",
}


class SqliteDatabase:
    """Methods raise MetadataStoreError when the file fails, and after a doubtful failure they all do."""

    def __init__(self, path: StrPath) -> None:
        self._path = path
        self._connection: sqlite3.Connection
        self._writes_in_log = 0
        self.failure: str | None = None
        """Why no call succeeds any more, once that is so."""
        self.revision = 0

    def open(self) -> None:
        try:
            # SQLite gives its write-ahead log the mode of the database, so this covers both files.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise MetadataStoreError(f"metadata store {self._path} cannot be opened: {error.strerror}") from error
        self._connection = sqlite3.connect(self._path, timeout=0, isolation_level=None)
        try:
            with self._guarded():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def get(self, key: str) -> Entry | None:
        with self._guarded():
            row = self._row("SELECT key, value, revision FROM entries WHERE key = ?", key)
            return None if row is None else Entry(*row)

    def list(self, prefix: str) -> Snapshot:
        with self._guarded():
            rows = self._connection.execute(
                "SELECT key, value, revision FROM entries WHERE key >= ? AND key < ? ORDER BY key",
                _bounds(prefix),
            )
            return Snapshot([Entry(*row) for row in rows], self.revision)

    def transact(self, compares: Sequence[Compare], writes: Sequence[Write]) -> int:
        assert len({write.key for write in writes}) == len(writes), "a transaction writes a key twice"
        with self._guarded(), self._transaction():
            for compare in compares:
                if self._revision_of(compare.key) != compare.revision:
                    raise Conflict(compare)
            revision = self._write([write for write in writes if self._has_effect(write)])
        self.revision = revision
        self._maybe_checkpoint(len(writes))
        return revision

    def changes(self, prefix: str, from_revision: int) -> tuple[Sequence[Change], int]:
        """A piece of the history from a revision on, and the revision that the next piece starts from."""
        with self._guarded():
            (oldest,) = self._row("SELECT min(revision) FROM events") or (None,)
            if oldest is not None and from_revision < oldest and oldest > 1:
                raise HistoryTrimmed(f"the history begins at revision {oldest}, after {from_revision}")
            next_revision = min(from_revision + WATCH_REVISIONS_PER_READ, self.revision + 1)
            rows = self._connection.execute(
                "SELECT key, value, revision FROM events WHERE revision >= ? AND revision < ?"
                " AND key >= ? AND key < ? ORDER BY revision, rowid",
                (from_revision, next_revision, *_bounds(prefix)),
            )
            events = [Event(*row) for row in rows]
            changes = [Change(revision, list(of_one)) for revision, of_one in groupby(events, _revision)]
            return changes, max(from_revision, next_revision)

    def leases(self) -> dict[int, int]:
        """The time to live of each lease, by its id."""
        with self._guarded():
            return dict(self._connection.execute("SELECT id, ttl_ms FROM leases"))

    def grant_lease(self, ttl_ms: int) -> int:
        with self._guarded():
            lease = self._connection.execute("INSERT INTO leases (ttl_ms) VALUES (?)", (ttl_ms,)).lastrowid
            assert lease is not None
            return lease

    def end_lease(self, lease: int) -> int:
        with self._guarded(), self._transaction():
            keys = self._connection.execute("SELECT key FROM entries WHERE lease = ? ORDER BY key", (lease,))
            revision = self._write([Delete(key) for (key,) in keys.fetchall()])
            self._connection.execute("DELETE FROM leases WHERE id = ?", (lease,))
        self.revision = revision
        return revision

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA wal_autocheckpoint = 0")
        if self._row("SELECT 1 FROM sqlite_master") is None:
            self._connection.executescript(_SCHEMA)
        (application_id,), (version,) = self._row("PRAGMA application_id"), self._row("PRAGMA user_version")
        if application_id != APPLICATION_ID:
            raise MetadataStoreError(f"metadata store {self._path} is a database of another program")
        if version != FORMAT_VERSION:
            raise MetadataStoreError(
                f"metadata store {self._path} has format {version}; this version of Oncelog knows"
                f" format {FORMAT_VERSION}"
            )
        (newest,) = self._row("SELECT max(revision) FROM events") or (None,)
        self.revision = newest or 0

    def _maybe_checkpoint(self, write_count: int) -> None:
        """Moves the write-ahead log into the database when it has become long.

        A failure is not the caller's, whose transaction is durable. On a full disk the log goes on to grow.
        """
        self._writes_in_log += write_count
        if self._writes_in_log < WRITES_PER_CHECKPOINT:
            return
        self._writes_in_log = 0
        with suppress(MetadataStoreError), self._guarded():
            self._row("PRAGMA wal_checkpoint(PASSIVE)")

    def _write(self, writes: Sequence[Write]) -> int:
        """Writes entries and events under the next revision; the caller's transaction makes them durable."""
        if not writes:
            return self.revision
        revision = self.revision + 1
        for write in writes:
            if isinstance(write, Put):
                self._check_lease(write.lease)
                self._connection.execute(
                    "INSERT INTO entries VALUES (?1, ?2, ?3, ?4)"
                    " ON CONFLICT (key) DO UPDATE SET value = ?2, revision = ?3, lease = ?4",
                    (write.key, write.value, revision, write.lease),
                )
            else:
                self._connection.execute("DELETE FROM entries WHERE key = ?", (write.key,))
        self._connection.executemany(
            "INSERT INTO events VALUES (?, ?, ?)",
            [(revision, write.key, write.value if isinstance(write, Put) else None) for write in writes],
        )
        self._connection.execute("DELETE FROM events WHERE revision <= ?", (revision - HISTORY_REVISIONS_MAX,))
        return revision

    def _has_effect(self, write: Write) -> bool:
        return isinstance(write, Put) or self._revision_of(write.key) != ABSENT

    def _check_lease(self, lease: int | None) -> None:
        if lease is not None and self._row("SELECT 1 FROM leases WHERE id = ?", lease) is None:
            raise LeaseExpired(f"lease {lease} has ended")

    def _revision_of(self, key: str) -> int:
        row = self._row("SELECT revision FROM entries WHERE key = ?", key)
        return ABSENT if row is None else int(row[0])

    def _row(self, statement: str, *parameters: object) -> Any:
        return self._connection.execute(statement, parameters).fetchone()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite rolls back by itself after some errors; the first error is the one to report.
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        if self.failure is not None:
            raise MetadataStoreError(self.failure)
        try:
            yield
        except sqlite3.Error as error:
            code = error.sqlite_errorcode or 0
            if code != _REFUSED_WRITE:
                code &= 0xFF
            message = f"metadata store {self._path} {_REASONS.get(code, 'failed')} ({error})"
            if code in _FATAL_CODES:
                self.failure = message
            raise MetadataStoreError(message) from error


def _bounds(prefix: str) -> tuple[str, str]:
    # No key has a character above the last one of Unicode, so this is the end of the prefix's range.
    return prefix, prefix + chr(0x10FFFF)


def _revision(event: Event) -> int:
    return event.revision
