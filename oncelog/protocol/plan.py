"""From a declaration and a version to a plan: what `_codec.c` needs to know to decode and encode it.

A plan is a tree of tuples:

    layout    (class, flexible, fields, absent fields, tagged fields, names of all its fields)
    field     (name, value)                 in the order of the body
    absent    (name, how it is made, of what)   what the other fields are when they were not there
    tagged    (name, tag, value, default)   written only where it differs from the default
    value     (kind, nullable, compact, size of an element at least, element or None, layout or None)

Without the extension there are no plans, and generated code does everything.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from oncelog.protocol.codegen_decode import DecodeWriter
from oncelog.protocol.primitives import Buffer, Fixed, Part, Sized
from oncelog.protocol.schema import ArrayType, Field, FieldType, Message, Struct, StructType, default_of

try:
    from oncelog.protocol import _codec
except ImportError:
    _codec = None  # type: ignore[assignment]

# The numbers are those of `_codec.c`.
_NAMES = "bool int8 int16 uint16 int32 uint32 int64 float64 uuid string bytes records array struct"
_KINDS = {name: number for number, name in enumerate(_NAMES.split())}
_CONSTANT, _NEW_LIST, _NEW_STRUCT = range(3)

Layout = tuple[Any, ...]


class Plan(Protocol):
    """What is not of the usual shape is left to generated code."""

    def decode(self, buf: Buffer, position: int, elements_max: int, /) -> tuple[Any, int] | Literal[False] | None:
        """The message and the position behind it; False if its arrays have more elements than `elements_max`."""

    def encode(self, message: Message, parts: list[Part], /) -> bool:
        """Append the parts of the encoding; whether that was done."""


class NoPlan:
    def decode(self, buf: Buffer, position: int, elements_max: int, /) -> None:
        return None

    def encode(self, message: Message, parts: list[Part], /) -> bool:
        return False


def make_plan(message: type[Message], version: int) -> Plan:
    return NoPlan() if _codec is None else _codec.Plan(layout_of(message, version))


def layout_of(message: type[Message], version: int) -> Layout:
    return _Planner(message, version).layout(message)


class _Planner(DecodeWriter):
    """Writes no code; it wants to know what the generator of decoders knows of a version."""

    def layout(self, cls: type[Struct]) -> Layout:
        present, tagged = self.present(cls), self.tagged(cls)
        return (
            cls,
            self.flexible,
            tuple((field.name, self._value(field.type, self.nullable(field), field.flexible)) for field in present),
            tuple(_absent(field) for field in cls.fields() if field not in present),
            tuple(self._tagged(field) for field in tagged),
            tuple(field.name for field in cls.fields()),
        )

    def _value(self, kind: FieldType, nullable: bool, flexible: bool = True) -> tuple[Any, ...]:
        match kind:
            case Fixed() | Sized():
                return _KINDS[kind.name], nullable, self.flexible and flexible, 0, None, None
            case ArrayType(element):
                return (
                    _KINDS["array"],
                    nullable,
                    self.flexible,
                    self.size_min(element),
                    self._value(element, False),
                    None,
                )
            case StructType(cls):
                return _KINDS["struct"], nullable, self.flexible, 0, None, self.layout(cls)

    def _tagged(self, field: Field) -> tuple[str, int | None, tuple[Any, ...], Any]:
        return field.name, field.tag, self._value(field.type, self.nullable(field)), default_of(field)


def _absent(field: Field) -> tuple[str, int, Any]:
    value = default_of(field)
    if isinstance(value, Struct):
        return field.name, _NEW_STRUCT, type(value)
    return (field.name, _NEW_LIST, None) if isinstance(value, list) else (field.name, _CONSTANT, value)
