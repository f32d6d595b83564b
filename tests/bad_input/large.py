"""Requests with very long arrays, one for each array of each API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oncelog.broker.handlers import APIS, Api
from oncelog.protocol.messages import request_class
from oncelog.protocol.schema import ArrayType, FieldType, Fixed, Message, Sized, Struct, StructType

INDEXES = frozenset(("partition", "partition_index", "index"))
NAMES = frozenset(("name", "topic", "group_id", "resource_name", "member_id"))
IDS = frozenset(("group_id", "transactional_id", "member_id", "v3_and_below_transactional_id"))

Path = tuple[str, ...]


def arrays() -> Iterator[tuple[Api, Path]]:
    for api in APIS.values():
        for path in _arrays(request_class(api.key), api.version_max):
            yield api, path


def _arrays(cls: type[Struct], version: int, outer: Path = ()) -> Iterator[Path]:
    for field in cls.fields():
        if version in field.versions and isinstance(field.type, ArrayType):
            yield (*outer, field.name)
            if isinstance(field.type.element, StructType):
                yield from _arrays(field.type.element.struct, version, (*outer, field.name))


def long_request(api: Api, path: Path, count: int, topic: str) -> Message:
    """A request whose array at `path` has `count` elements; the arrays around it have one."""
    message = request_class(api.key)()
    names = {field.name for field in type(message).fields()}
    for name in IDS & names:
        setattr(message, name, "somebody")
    if "acks" in names:
        message.acks = 1  # type: ignore[attr-defined]
    node: Any = message
    for name in path:
        (field,) = (field for field in type(node).fields() if field.name == name)
        assert isinstance(field.type, ArrayType)
        is_last = name == path[-1] and node is not None and path.index(name) == len(path) - 1
        elements = [_element(field.type.element, index) for index in range(count if is_last else 1)]
        setattr(node, name, elements)
        node = elements[0]
        for inner in ("name", "topic"):
            if not is_last and hasattr(node, inner):
                setattr(node, inner, topic)
    return message


def _element(kind: FieldType, index: int) -> Any:
    if isinstance(kind, StructType):
        return _struct(kind.struct, index)
    if isinstance(kind, Fixed):
        return index if kind.name in ("int32", "int64") else kind.zero
    return f"x{index}"


def _struct(cls: type[Struct], index: int) -> Struct:
    struct = cls()
    for field in cls.fields():
        if isinstance(field.type, Fixed) and field.name in INDEXES:
            setattr(struct, field.name, index)
        elif isinstance(field.type, Sized) and field.type.name == "string":
            setattr(struct, field.name, f"x{index}" if field.name in NAMES else "x")
    return struct
