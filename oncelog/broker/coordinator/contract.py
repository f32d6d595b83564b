"""What a coordinator takes and gives.

A method takes a request and the time and returns a `Result`; it does not change what is persistent. The runtime
appends the records to the coordinator's partition, hands each to `replay`, which alone changes persistent state,
and lets the replies go once the records are safe. After a restart the same `replay` rebuilds the state from the
log, so recovery is not a second implementation. What Kafka does not write to its log, such as who has joined a
rebalance that is still under way, is volatile: methods change it directly, and it is gone after a restart.

A method writes its records before it changes anything volatile: records that are too large for the log refuse the
request (`RecordsTooLarge`), which must then leave no trace.

A request that must wait for others (JoinGroup, SyncGroup) is parked under a token of the coordinator's choice; a
later result brings its reply. Timers are data too: a key and a deadline. One that fires is an input like any
other and returns a Result.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

from oncelog.broker.base.now import Now
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.schema import Message

R = TypeVar("R")
S = TypeVar("S")


class CoordinatorRecord:
    """A record of an internal topic. No value is a tombstone."""

    __slots__ = ("encoded", "key", "value", "value_version")

    def __init__(self, key: Message, value: Message | None, value_version: int = 0) -> None:
        self.key = key
        self.value = value
        self.value_version = value_version
        self.encoded: tuple[bytes, bytes | None] | None = None
        """The bytes of key and value, once somebody has asked for them (`encode_record`)."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoordinatorRecord) and (self.key, self.value, self.value_version) == (
            other.key,
            other.value,
            other.value_version,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CoordinatorRecord({self.key!r}, {self.value!r}, {self.value_version})"


class RecordsTooLarge(KafkaError):
    """The request is refused, as Kafka refuses it, before it has changed anything."""

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the coordinator would have to write {size_bytes} bytes at once; max.message.bytes and segment.bytes of "
            f"its internal topic allow {size_bytes_max}",
        )


class SetTimer(NamedTuple):
    """Call `on_timer(key)` at the deadline; replaces an earlier timer of the same key."""

    key: Hashable
    deadline_ms: int


class CancelTimer(NamedTuple):
    key: Hashable


class Parked(NamedTuple):
    """In place of a reply: the request waits under this token. An earlier one of the same token is answered
    with `displaced`, since its client cannot be waiting for both."""

    token: Hashable
    displaced: Any = None


class Completion(NamedTuple):
    """The reply to a request that was parked; nothing happens if it is not there any more. `at_once` lets it go
    before the records are written, where it says nothing that rests on them."""

    token: Hashable
    reply: Any
    at_once: bool = False


class Result(Generic[R]):
    """What should happen. Replies go out, and effects happen, when the records are safe, or at once if there are
    none. An effect is a request to the world outside of the partition; the host of the shard knows what to do.

    The records are written together or not at all, unless the result is `divisible`: each of them then stands for
    itself, and as many go into one batch as it may have. A crash may leave the first of them."""

    __slots__ = ("completions", "divisible", "effects", "records", "reply", "timers")

    def __init__(
        self,
        reply: R | Parked,
        records: list[CoordinatorRecord] | None = None,
        *,
        completions: list[Completion] | None = None,
        timers: list[SetTimer | CancelTimer] | None = None,
        effects: list[Any] | None = None,
        divisible: bool = False,
    ) -> None:
        self.reply = reply
        self.divisible = divisible
        self.records = records or []
        self.completions = completions or []
        self.timers = timers or []
        self.effects = effects or []

    def with_reply(self, reply: S) -> Result[S]:
        """The same consequences, told in other words."""
        return Result(
            reply,
            self.records,
            completions=self.completions,
            timers=self.timers,
            effects=self.effects,
            divisible=self.divisible,
        )

    def __repr__(self) -> str:
        parts = [f"{self.reply!r}"]
        parts += [
            f"{name}={getattr(self, name)!r}"
            for name in ("records", "completions", "timers", "effects", "divisible")
            if getattr(self, name)
        ]
        return f"Result({', '.join(parts)})"


class ReplayContext(NamedTuple):
    """Where a record stands in the log. A producer id below zero means that it belongs to no transaction.

    `now` is the time of the replay. While a log is loaded its wall-clock time is that of the newest record: nothing
    could be used while the broker was stopped, so nothing ages then."""

    offset: int
    now: Now
    producer_id: int = -1
    producer_epoch: int = -1


class Coordinator(Protocol):
    """One partition's worth of groups, or of transactions."""

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """A record of the log; None for a type that this version does not know, which is skipped."""

    def replay(self, record: CoordinatorRecord, context: ReplayContext) -> None:
        """Change the persistent state. Never refuses: what is in the log has happened."""

    def replay_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> Result[None]:
        """A transaction has ended in this partition. The result has no records, but may complete or time."""

    def on_loaded(self, now: Now) -> Result[None]:
        """The log has been replayed: what has to go on now?"""

    def on_timer(self, key: Hashable, now: Now) -> Result[None]:
        """A timer has fired."""

    def on_unloaded(self) -> None:
        """The partition is led by another broker from now on."""


class Refused(NamedTuple):
    """A reply that is an error: the one who waits gets it raised."""

    error: KafkaError
