"""Every way in which one field of a good request can be bad, from the declaration of the request."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from oncelog.protocol.primitives import ZERO_UUID, Fixed, Sized
from oncelog.protocol.schema import ArrayType, Field, FieldType, Message, Struct, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNKNOWN_UUID = b"\x05" * 16
Path = tuple[str | int, ...]
Change = tuple[Path, str, Any]


def mutations(request: Message, version: int) -> Iterator[tuple[str, Path, Any]]:
    """Label, place and value of each change; `changed` makes it. Strings differ from one request to the next."""
    where = f"{type(request).__name__.removesuffix('Request')}.{version}"
    for path, label, value in _of_struct(request, version, ()):
        if label == "string":
            for kind, text in _strings(where).items():
                if text != value:
                    yield _label(path, kind), path, text
        else:
            yield _label(path, label), path, value


def _strings(where: str) -> dict[str, str]:
    return {
        "empty": "",
        "unknown": f"unknown-{where}",
        "illegal": f"no/such name\u00e9 {where}",
        "long": where.ljust(300, "x"),
    }


def changed(request: Message, path: Path, value: Any) -> Message:
    """A copy of the request with one value replaced."""
    changed: Message = copy_of(request)
    at: Any = changed
    for step in path[:-1]:
        at = at[step] if isinstance(step, int) else getattr(at, step)
    last = path[-1]
    if isinstance(last, int):
        at[last] = value
    else:
        setattr(at, last, value)
    return changed


def copy_of(value: Any) -> Any:
    """A deep copy; declarations have slots and constructors that the copy module does not know."""
    if isinstance(value, Struct):
        return type(value)(**{field.name: copy_of(getattr(value, field.name)) for field in type(value).fields()})
    if isinstance(value, list):
        return [copy_of(item) for item in value]
    return copy.copy(value) if not isinstance(value, memoryview) else bytes(value)


def _of_struct(value: Struct, version: int, path: Path) -> Iterator[Change]:
    for field in type(value).fields():
        if version in field.versions:
            yield from _of_field(field, getattr(value, field.name), version, (*path, field.name))


def _of_field(field: Field, value: Any, version: int, path: Path) -> Iterator[Change]:
    if version in field.nullable and value is not None:
        yield path, "null", None
    yield from _of_value(field.type, value, version, path)


def _of_value(kind: FieldType, value: Any, version: int, path: Path) -> Iterator[Change]:
    match kind:
        case ArrayType(element):
            if value:
                yield path, "empty", []
                yield path, "twice", [*copy_of(value), copy_of(value[0])]
                yield from _of_value(element, value[0], version, (*path, 0))
        case StructType():
            if value is not None:
                yield from _of_struct(value, version, path)
        case Fixed() | Sized():
            if kind.name == "string":
                yield path, "string", value
            for label, bad in _scalars(kind, value):
                if bad != value:
                    yield path, label, bad


def _scalars(kind: Fixed | Sized, value: Any) -> Iterator[tuple[str, Any]]:
    match kind.name:
        case "bool":
            yield str(not value).lower(), not value
        case "float64":
            yield "-1", -1.0
        case "uuid":
            yield from {"zero": ZERO_UUID, "unknown": UNKNOWN_UUID}.items()
        case "uint16":
            yield from {"0": 0, "max": (1 << 16) - 1}.items()
        case "string":
            return
        case "bytes" | "records":
            yield from {"empty": b"", "garbage": b"\x00\x01garbage"}.items()
        case _:
            bits = _BITS[kind.name]
            yield from {"-1": -1, "min": -(1 << bits - 1), "max": (1 << bits - 1) - 1}.items()


def _label(path: Path, what: str) -> str:
    return ".".join(str(step) for step in path if not isinstance(step, int)) + " " + what
