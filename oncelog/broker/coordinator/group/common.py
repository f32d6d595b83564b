"""What all kinds of groups have in common: how the rest of a shard sees them, whatever protocol they speak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Protocol

from oncelog.broker.coordinator.contract import CoordinatorRecord, ReplayContext, Result
from oncelog.named_tuple import NamedTuple

Replay = Callable[[Any, Any, ReplayContext], None]
"""Takes the key and value (None for a tombstone) of a record and where it stands."""
TimerHandler = Callable[..., Result[None]]
"""Takes the time and the parts of the timer's key behind its kind."""


class GroupType(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class Caller(NamedTuple):
    """Who sends a request, and with which version of its API."""

    version: int
    client_id: str = ""
    client_host: str = ""
    unique: str = ""
    """Tells the sender apart from all others if it becomes a new member: its id, or the end of its id."""


class Committer(NamedTuple):
    """As whom a client commits offsets. A generation below zero and no member id: as nobody's member."""

    group_id: str
    generation: int = -1
    """Or the member epoch, in a consumer group."""
    member_id: str = ""
    instance_id: str | None = None
    version: int = 0


class Group(Protocol):
    """`check_` methods raise KafkaError."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type(self) -> str:
        """Empty for a group that nobody ever joined."""

    @property
    def is_empty(self) -> bool:
        """No members: the group may be deleted, or go over to another protocol."""

    def check_offset_commit(
        self, committer: Committer, partitions: Iterable[tuple[bytes, int]], *, transactional: bool
    ) -> None:
        """`partitions` have topic ids."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Offsets of such a topic neither expire nor may be deleted."""

    def retention_start_ms(self, committed_ms: int) -> int | None:
        """Since when, in steady time, the retention of an offset counts; None while it does not (KIP-211)."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Deletes everything that the log has of the group, except its offsets."""


class Groups:
    """The groups of a shard by id. Changed in `replay`, and for classic groups that only pend."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def put(self, group: Group) -> None:
        """Also in place of a group of the same id and another type."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._groups.pop(group_id, None)
