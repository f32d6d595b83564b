"""What all clients have to bring through the broker unchanged, and what the broker's files say of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from oncelog.protocol.records.batch import iter_headers
from oncelog.protocol.records.compression import Compression

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all")
LARGE_TOPIC = {"max.message.bytes": "11000000"}
REQUEST_SIZE_BYTES_MAX = 12_000_000
TIMEOUT_S = 30.0

Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Received(NamedTuple):
    offset: int
    sent: Sent


def value_of(size_bytes: int) -> bytes:
    """Half of it cannot be compressed, and no byte is missing in a large one."""
    noise = random.Random(size_bytes).randbytes((size_bytes + 1) // 2)
    return noise + b"\x00" * (size_bytes - len(noise))


NOW_MS = int(time.time() * 1000)

SMALL_TO_MIDDLE = (
    Sent(b"k", value_of(1), (), NOW_MS - 5_000),
    Sent(None, value_of(1000), (("one", b"\x00\xff"), ("two", b""), ("one", b"again")), NOW_MS - 4_000),
    Sent(bytes(range(256)), value_of(100_000), (("Ünïcode", b"value"),), NOW_MS - 9_000),
    Sent(b"tombstone", None, (("null", None),), NOW_MS - 2_000),
    Sent(b"", b"", (), NOW_MS - 86_400_000),
)
"""Keys and values of all kinds. The timestamps are the producer's own: not in order, but within the retention."""

LARGE = (Sent(b"large", value_of(10_000_000), (("size", b"10 MB"),), NOW_MS),)


def without_null_headers(records: tuple[Sent, ...]) -> tuple[Sent, ...]:
    return tuple(
        record._replace(headers=tuple((name, value or b"") for name, value in record.headers)) for record in records
    )


def received(sent: tuple[Sent, ...]) -> list[Received]:
    """What a consumer of a topic that has nothing else must see."""
    return [Received(offset, record) for offset, record in enumerate(sent)]


def stored_codecs(data_dir: Path, topic: str) -> set[str]:
    """The codecs of the batches that the broker wrote for partition 0."""
    data = memoryview((data_dir / f"{topic}-0" / f"{0:020}.log").read_bytes())
    return {Compression(header.compression).name.lower() for _, header in iter_headers(data)}


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to pass: {what}"
        time.sleep(0.02)
