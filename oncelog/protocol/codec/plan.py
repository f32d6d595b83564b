"""From a declaration and a version to a plan: everything an executor needs to know to decode and encode that version.

A plan is a tree of named tuples. It names fields in the order of the wire format, and has no versions left in it:

    StructPlan   a message or a nested struct
      fields     in the body, in order
      absent     not in the body: set to their defaults while decoding (tagged fields start as absent ones)
      tagged     at the end of a flexible version, by tag, and only if they differ from their default (KIP-482)
    ValuePlan    the type of a field or of an array's elements

The C executor reads the tuples by position, so the order of their fields is part of `plan.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.primitives import Fixed, Sized
from oncelog.protocol.schema import ArrayType, Field, FieldType, Message, Struct, StructType, default_of


class StructPlan(NamedTuple):
    cls: type[Struct]
    flexible: bool
    fields: tuple[FieldPlan, ...]
    absent: tuple[AbsentPlan, ...]
    tagged: tuple[TaggedPlan, ...]


class FieldPlan(NamedTuple):
    name: str
    value: ValuePlan


class AbsentPlan(NamedTuple):
    """A field that gets `factory()`, or `constant` if there is no factory."""

    name: str
    factory: Callable[[], Any] | None
    constant: Any


class TaggedPlan(NamedTuple):
    name: str
    value: ValuePlan
    tag: int
    default: Any


class ValuePlan(NamedTuple):
    kind: str
    """The `struct` code of a fixed-width type; otherwise string, bytes, records, array or struct."""
    nullable: bool
    compact: bool
    """The length is an unsigned varint of length + 1, instead of an int16 or int32."""
    size_min: int
    """The fewest bytes that a value takes. An array must fit before it is allocated."""
    element: ValuePlan | None = None
    struct: StructPlan | None = None


def make_plan(message: type[Message], version: int) -> StructPlan:
    if version not in message.VERSIONS:
        raise AssertionError(f"{message.__name__} has no version {version}")
    return _Planner(version, version in message.FLEXIBLE).struct(message)


class _Planner:
    def __init__(self, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible

    def struct(self, cls: type[Struct]) -> StructPlan:
        fields, absent, tagged = [], [], []
        for field in cls.fields():
            in_version, in_tags = self._version in field.versions, self._version in field.tagged
            if in_version and not in_tags:
                fields.append(FieldPlan(field.name, self._field_value(field)))
                continue
            absent.append(_absent(field))
            if in_version and self._flexible and field.tag is not None:
                tagged.append(TaggedPlan(field.name, self._field_value(field), field.tag, default_of(field)))
        tagged.sort(key=lambda each: each.tag)
        return StructPlan(cls, self._flexible, tuple(fields), tuple(absent), tuple(tagged))

    def _field_value(self, field: Field) -> ValuePlan:
        return self._value(field.type, self._version in field.nullable)

    def _value(self, kind: FieldType, nullable: bool = False) -> ValuePlan:
        compact = self._flexible
        match kind:
            case Fixed():
                return ValuePlan(kind.code, nullable, compact, kind.size_bytes)
            case Sized():
                return ValuePlan(kind.name, nullable, compact, 1 if compact else 2 if kind.name == "string" else 4)
            case ArrayType(element):
                return ValuePlan("array", nullable, compact, 1 if compact else 4, self._value(element))
            case StructType(cls):
                struct = self.struct(cls)
                size_min = sum(field.value.size_min for field in struct.fields) + compact
                return ValuePlan("struct", nullable, compact, 1 if nullable else max(1, size_min), None, struct)


def _absent(field: Field) -> AbsentPlan:
    default = default_of(field)
    factory = type(default) if isinstance(default, list | Struct) else None
    return AbsentPlan(field.name, factory, None if factory else default)
