"""Splits a large request into chunks along one of its arrays, and joins the responses to the chunks.

A path names an array and the arrays around it, outermost first: ("topics", "partitions"). The
elements of the last array are counted. Each chunk is a message with some of them and with the elements around those.

    topics: A [0 1 2 3 4], B [0], C []    in chunks of 3 partitions:    A [0 1 2] · A [3 4], B [0] · C []

The second chunk continues A, which the first one began. Its `seam` says so, and the responses for A become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.schema import Message, Struct

S = TypeVar("S", bound=Struct)
Path = tuple[str, ...]


class ChunkPaths(NamedTuple):
    """Requests of an API are split along `request`, and their responses are joined along `response`."""

    request: Path
    response: Path


def along(request: str, response: str | None = None) -> ChunkPaths:
    """`along("topics.partitions")`; the response is joined along the same path unless it has another."""
    return ChunkPaths(tuple(request.split(".")), tuple((response or request).split(".")))


class ChunkSize:
    """How many elements the next chunk has. Whoever handles the chunks may change it between two chunks."""

    __slots__ = ("elements", "left")

    def __init__(self, elements: int) -> None:
        self.elements = self.left = elements


def cut(message: Message, path: Path, size: ChunkSize) -> Iterator[tuple[Any, int]]:
    """Yield chunks, each with its seam: at how many levels, from the outermost, it continues the chunk before it."""
    for chunk, seam in _parts(message, path, size):
        yield chunk, max(0, seam - 1)
        size.left = size.elements


def join(responses: Message, more: Message, path: Path, seam: int) -> None:
    """Add the response to the next chunk. Other fields stay those of the first response, but an error replaces them."""
    if getattr(more, "error_code", 0):
        responses.error_code = more.error_code  # type: ignore[attr-defined]
    _join(responses, more, path, seam)


def _parts(node: S, path: Path, size: ChunkSize) -> Iterator[tuple[S, int]]:
    """Yield copies of `node`, each with some of its elements; a copy ends where its chunk does.

    The number with a copy counts the levels that continue the previous copy, including `node` itself.
    """
    name, *rest = path
    elements = getattr(node, name)
    if not elements:
        size.left -= 1
        yield node, 0
        return
    taken: list[Any] = []
    seam = first_seam = 0
    for element in elements:
        for part, part_seam in _parts(element, tuple(rest), size) if rest else _leaf(element, size):
            if not taken:
                first_seam = part_seam
            taken.append(part)
            if size.left <= 0:
                yield _with(node, name, taken), seam and 1 + first_seam
                taken, seam = [], 1
    if taken:
        yield _with(node, name, taken), seam and 1 + first_seam


def _leaf(element: Any, size: ChunkSize) -> Iterator[tuple[Any, int]]:
    size.left -= 1
    yield element, 0


def _with(node: S, name: str, elements: list[Any]) -> S:
    copy = object.__new__(type(node))
    for field in node._specs:
        setattr(copy, field, getattr(node, field))
    setattr(copy, name, elements)
    return copy


def _join(node: Struct, more: Struct, path: Path, seam: int) -> None:
    name, *rest = path
    elements, added = getattr(node, name), getattr(more, name)
    if seam and rest and elements and added and _differ_only_in(rest[0], elements[-1], added[0]):
        _join(elements[-1], added[0], tuple(rest), seam - 1)
        added = added[1:]
    elements += added


def _differ_only_in(name: str, one: Struct, other: Struct) -> bool:
    return all(getattr(one, field) == getattr(other, field) for field in one._specs if field != name)
