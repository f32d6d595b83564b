"""Encodes and decodes messages: bytes to values and back.

On first use a declaration and a version become a plan (`plan`), and an executor carries the plan out: the C extension
where it was built (`_native.c`), otherwise Python code that is generated from the plan (`python`). The C executor hands
whatever it refuses to the Python one, which raises the error. So each error is worded once.

What every decoder promises: a good value or ProtocolError, whatever the bytes. Before it allocates an array, it checks
the count against the bytes that are left and against a budget of elements for the whole message, so a short frame
cannot claim a long list.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

from oncelog.protocol.codec.plan import make_plan
from oncelog.protocol.codec.python import PythonExecutor
from oncelog.protocol.errors import TooManyElementsError
from oncelog.protocol.primitives import Buffer, Part
from oncelog.protocol.schema import Message

try:
    from oncelog.protocol.codec._native import NativeExecutor
except ImportError:
    NativeExecutor = None  # type: ignore[assignment,misc]

M = TypeVar("M", bound=Message)
Parts = list[Part]

ELEMENTS_MAX = 1_000_000
"""How many elements the arrays of a message may have in total, unless its reader says otherwise."""


class Executor(Protocol):
    """Encodes and decodes one version of a message."""

    def decode(self, buf: Buffer, position: int, elements_max: int, /) -> Any:
        """The message at `position`."""

    def decode_from(self, buf: Buffer, position: int, elements_max: int, /) -> tuple[Any, int]:
        """The message at `position`, and the position behind it."""

    def encode(self, message: Message, parts: Parts, /) -> None:
        """Append the encoding to `parts`."""


_executors: dict[tuple[type[Message], int], Executor] = {}


def decode(message: type[M], version: int, buf: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX) -> M:
    """The message in `buf` from `position`; bytes behind it are ignored, as Kafka ignores them.

    TooManyElementsError if its arrays have more than `elements_max` elements in total.
    """
    executor = _executors.get((message, version)) or _make_executor(message, version)
    return cast(M, executor.decode(buf, position, elements_max))


def decode_from(message: type[M], version: int, buf: Buffer, position: int = 0) -> tuple[M, int]:
    """Like `decode`, with the position behind the message."""
    executor = _executors.get((message, version)) or _make_executor(message, version)
    return executor.decode_from(buf, position, ELEMENTS_MAX)


def encode(value: Message, version: int) -> bytes:
    parts: Parts = []
    encode_into(value, version, parts)
    # Stored bytes are only ever sent.
    return b"".join(cast(list[Buffer], parts))


def encode_into(value: Message, version: int, parts: Parts) -> None:
    """Append the encoding to `parts`. A long `Records` value becomes a part of its own, without a copy."""
    message = type(value)
    executor = _executors.get((message, version)) or _make_executor(message, version)
    executor.encode(value, parts)


def _make_executor(message: type[Message], version: int) -> Executor:
    executor: Executor = PythonExecutor(message, version)
    if NativeExecutor is not None:
        executor = NativeExecutor(make_plan(message, version), executor, TooManyElementsError)
    return _executors.setdefault((message, version), executor)
