"""The contract of a metadata store, which the embedded SQLite store and etcd both keep.

A store maps keys (text, in a tree of slashes) to values (bytes). One counter, the revision, numbers the
transactions that changed something; the revision of an entry is that of its last change, and an absent key
has revision 0. What a method promises:

Reads (`get`, `list`) see every transaction that was acknowledged before they were called, never half of
one, and `list` says at which revision its picture was taken.

Writes (`transact`, `put_if`, `delete_if`) happen wholly or not at all, only if every compared key still has
the expected revision, and are durable when the call returns. A refused compare raises `Conflict`. Another
error, or a cancelled call, leaves open whether the write happened; the caller learns it by reading or
watching.

Watches (`watch`) deliver each transaction that touched the prefix, once, whole, in the order of revisions
and without a gap, from the past up to the present and then as it happens. A watch that ended is resumed
from the revision after the last one seen. A store forgets old history: a watch that starts before it raises
`HistoryTrimmed`, and its caller lists anew.

Leases (`grant_lease`, `keep_alive`, `revoke_lease`) bind keys to the life of their owner: when a lease is
revoked or was not kept alive for its time to live, its keys vanish in one transaction. A lease never ends
early; it may end late (a store that restarts gives each lease its whole time again). So a lease is a hint
about liveness, and decisions rest on compares of revisions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

ABSENT = 0


class Entry(NamedTuple):
    """A key that is present."""

    key: str
    value: bytes
    revision: int


class Snapshot(NamedTuple):
    """The entries below a prefix, ordered by key, as they were at `revision`."""

    entries: Sequence[Entry]
    revision: int


class Compare(NamedTuple):
    """A condition of a transaction: the key's revision, `ABSENT` for a key that must not exist."""

    key: str
    revision: int


class Put(NamedTuple):
    key: str
    value: bytes
    lease: int | None = None


class Delete(NamedTuple):
    key: str


Write = Put | Delete


class Event(NamedTuple):
    """What a transaction did to one key; the value is None where the key was deleted."""

    key: str
    value: bytes | None
    revision: int


class Change(NamedTuple):
    """All events of one transaction below the watched prefix, so that nobody sees half of it."""

    revision: int
    events: Sequence[Event]


class Conflict(Exception):
    """A compared key has another revision than expected; nothing was written."""

    def __init__(self, failed: Compare) -> None:
        super().__init__(f"{failed.key} no longer has revision {failed.revision}")
        self.failed = failed


class HistoryTrimmed(Exception):
    """The store no longer has the events that a watch asked for."""


class LeaseExpired(Exception):
    """The lease ended, or never was."""


class MetadataStoreError(KafkaError):
    """The store cannot do its work (file, disk, network); the message is one line for a person.

    A client whose request needed the store gets KAFKA_STORAGE_ERROR and may try again.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)

    def __str__(self) -> str:
        return self.message


class MetadataStore(ABC):
    """See the module's text for the guarantees."""

    @abstractmethod
    async def get(self, key: str) -> Entry | None: ...

    @abstractmethod
    async def list(self, prefix: str) -> Snapshot: ...

    @abstractmethod
    async def transact(self, compares: Sequence[Compare], writes: Sequence[Write]) -> int:
        """Returns the revision of the transaction, or the present one where the writes changed nothing.

        Changing nothing means: no write, or deletions of absent keys. A key is written at most once.
        """

    async def put_if(self, key: str, value: bytes, revision: int) -> int:
        return await self.transact([Compare(key, revision)], [Put(key, value)])

    async def delete_if(self, key: str, revision: int) -> int:
        return await self.transact([Compare(key, revision)], [Delete(key)])

    @abstractmethod
    def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Change, None]:
        """Delivers changes of `from_revision` and later; the caller closes the generator."""

    @abstractmethod
    async def grant_lease(self, ttl_ms: int) -> int: ...

    @abstractmethod
    async def keep_alive(self, lease: int) -> None: ...

    @abstractmethod
    async def revoke_lease(self, lease: int) -> None: ...

    @abstractmethod
    async def close(self) -> None:
        """Ends the watches and leaves leases to expire."""
