"""What a scenario asks of a client, whichever library it is.

An adapter in `clients/` translates these calls and answers in plain JSON values. The observations of two
different clients need not look alike: only those of one client against two brokers are compared.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

OPERATION_TIMEOUT_S = 30.0
# Above the largest record of any scenario; a client's own limit must not hide the broker's.
REQUEST_SIZE_BYTES_MAX = 20_000_000
_SHOWN_BYTES_MAX = 40


class Record(NamedTuple):
    """A record to produce. All its bytes are printable ASCII, since some clients speak only text."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


class ClientError(Exception):
    """The client saw a failure; the text is its own name for that failure, without the broker's wording."""


class UnsupportedError(Exception):
    """The client has no such call."""


class Client(Protocol):
    """Every call returns what the client saw, or raises ClientError or UnsupportedError."""

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> Json: ...

    def delete_topic(self, name: str) -> Json: ...

    def create_partitions(self, name: str, total: int) -> Json: ...

    def describe_topic(self, name: str) -> list[Json]:
        """One element for each partition."""
        ...

    def describe_configs(self, topic: str) -> dict[str, Json]: ...

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> Json:
        """Sets configs of a topic; None takes one back to its default."""
        ...

    def produce(self, topic: str, records: Sequence[Record], *, codec: str, acks: str) -> Json:
        """Sends to partition 0, each record in a batch of its own where the client lets us."""
        ...

    def consume(self, topic: str, count: int, *, fetch_size_bytes: int | None = None) -> list[Json]:
        """The first records of partition 0, without a group; a size limits what the client asks for at once."""
        ...

    def list_offset(self, topic: str, partition: int, spec: str) -> Json:
        """The offset for `earliest`, `latest`, another of Kafka's names, or a time in milliseconds."""
        ...

    def open_consumer(
        self,
        topic: str,
        group: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        isolation: str = "read_uncommitted",
    ) -> GroupConsumer:
        """A member of a group that reads the topic from its beginning and commits when told to."""
        ...

    def open_producer(self, transactional_id: str | None, *, timeout_ms: int = 60_000) -> TransactionalProducer:
        """An idempotent producer; with an id, a transactional one that is not initialized yet."""
        ...

    def close(self) -> None: ...


class GroupConsumer(Protocol):
    """Calls raise ClientError as those of a client do."""

    def poll(self, seconds: float) -> list[Json]:
        """The records that came, each as partition, offset and value."""
        ...

    def assigned(self) -> int:
        """How many partitions the group gave to this member."""
        ...

    def commit(self) -> Json:
        """Commit what was polled."""
        ...

    def committed(self, partition: int) -> Json:
        """The group's offset, None if there is none."""
        ...

    def close(self) -> None: ...


class TransactionalProducer(Protocol):
    """Calls raise ClientError as those of a client do."""

    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes) -> Json:
        """Send to partition 0 and wait for the answer: its offset."""
        ...

    def send_offset(self, consumer: GroupConsumer, topic: str, offset: int) -> None:
        """The offset of partition 0, as part of the transaction, for the consumer's group."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


def show(data: bytes | None) -> Json:
    """Bytes as JSON: short ones as text, long ones as length and digest."""
    if data is None:
        return None
    if len(data) <= _SHOWN_BYTES_MAX:
        return data.decode("latin-1")
    return f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:16]}"


def show_headers(headers: Sequence[tuple[str, bytes | None]]) -> Json:
    return [[name, show(value)] for name, value in headers]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + OPERATION_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {OPERATION_TIMEOUT_S:.0f} s: {what}")
        time.sleep(0.02)
