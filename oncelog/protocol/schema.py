"""How a message is declared: one class per message, the superset of its fields, each with its versions.

    class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
        transactional_id: String
        producer_id: Int64
        producer_epoch: Int16
        committed: Bool

The annotation is the type (`list[...]` is an array, `X | None` may be null, a `Struct` is nested); `field()` adds
what the annotation cannot express. A field without `field()` is in every version of its message. Nothing is compiled
at import: `protocol.codec` makes the codec of a version on first use.
"""

from __future__ import annotations

import sys
import types
import typing
from typing import Any, ClassVar

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.primitives import Fixed, Sized

VERSION_MAX = 32767
OWN_TAG_FIRST = 10_000
"""Kafka numbers its tagged fields from 0; those from here on are ours. A peer that does not know one skips it."""


class Versions(NamedTuple):
    """An inclusive range of versions; empty when `first > last`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """`"3+"`, `"0-4"`, `"7"` or `"none"`, as Kafka's schemas write them."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS = Versions(1, 0)
ALL_VERSIONS = Versions(0, VERSION_MAX)

_UNSET: Any = object()


class FieldSpec(NamedTuple):
    """What a declaration says about a field in addition to its annotation."""

    versions: Versions = ALL_VERSIONS
    nullable: Versions = NO_VERSIONS
    default: Any = _UNSET
    tag: int | None = None
    tagged: Versions = NO_VERSIONS


def field(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = _UNSET,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """Declare a field's versions, the versions in which it may be null, its default, and its tag.

    A tagged field is tagged in all its versions unless `tagged` says otherwise.
    """
    tagged_in = NO_VERSIONS if tag is None else Versions.parse(tagged or versions)
    return FieldSpec(Versions.parse(versions), Versions.parse(nullable), default, tag, tagged_in)


class ArrayType(NamedTuple):
    element: FieldType


class StructType(NamedTuple):
    struct: type[Struct]


FieldType = Fixed | Sized | ArrayType | StructType


class Field(NamedTuple):
    """A field with its annotation resolved."""

    name: str
    type: FieldType
    versions: Versions
    nullable: Versions
    default: Any
    tag: int | None
    tagged: Versions


class StructMeta(type):
    """Turns the annotations of a declaration into slots, and keeps its field specs in `_specs`."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        names = tuple(name for name, hint in namespace.get("__annotations__", {}).items() if "ClassVar" not in hint)
        specs = {name: namespace.pop(name, FieldSpec()) for name in names}
        namespace["__slots__"] = names
        namespace["_specs"] = specs
        return super().__new__(mcs, name, bases, namespace, **options)


class Struct(metaclass=StructMeta):
    """A group of fields that is nested in a message."""

    _specs: ClassVar[dict[str, FieldSpec]]
    _fields: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        """Runs once per class: replaces itself with a function that has the class's fields as parameters."""
        cls = type(self)
        type.__setattr__(cls, "__init__", _compile_init(cls))
        self.__init__(**values)  # type: ignore[misc]

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        if "_fields" not in cls.__dict__:
            cls._fields = tuple(_resolve_fields(cls))
        return cls._fields

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._specs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name, '?')!r}" for name in self._specs)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A request, a response, or a key or value of an internal topic."""

    API_KEY: ClassVar[int | None] = None
    VERSIONS: ClassVar[Versions] = NO_VERSIONS
    FLEXIBLE: ClassVar[Versions] = NO_VERSIONS

    def __init_subclass__(
        cls, *, versions: str, flexible: str = "none", api_key: int | None = None, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        cls.API_KEY = api_key
        cls.VERSIONS = Versions.parse(versions)
        cls.FLEXIBLE = Versions.parse(flexible)


def default_of(field: Field) -> Any:
    """Return a new default value, which the field has in versions without it."""
    if field.default is not _UNSET:
        return field.default
    match field.type:
        case ArrayType():
            return []
        case StructType(struct):
            return struct()
        case Fixed() | Sized():
            return field.type.zero


def _compile_init(cls: type[Struct]) -> Any:
    """Straight-line assignments; each instance gets its own list or struct where none is given."""
    constants: dict[str, Any] = {"UNSET": _UNSET}
    parameters, lines = [], []
    for name, default in ((field.name, default_of(field)) for field in cls.fields()):
        match default:
            case list():
                unset, value = "UNSET", f"[] if {name} is UNSET else {name}"
            case Struct():
                unset, value = "UNSET", f"NEW_{name}() if {name} is UNSET else {name}"
                constants[f"NEW_{name}"] = type(default)
            case _:
                unset, value = f"DEFAULT_{name}", name
                constants[f"DEFAULT_{name}"] = default
        parameters.append(f"{name}={unset}")
        lines.append(f"    self.{name} = {value}")
    exec(f"def __init__(self, *, {', '.join(parameters)}):\n" + "\n".join(lines), constants)
    init = constants["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _resolve_fields(cls: type[Struct]) -> typing.Iterator[Field]:
    # All at once: typing.get_type_hints compiles each annotation by itself, a third of the time that a codec needs.
    annotations = ",".join(cls.__annotations__[name] for name in cls._specs)
    hints = eval(f"[{annotations}]", vars(sys.modules[cls.__module__]))
    for (name, spec), hint in zip(cls._specs.items(), hints, strict=True):
        yield Field(name, _resolve_type(cls, name, hint), *spec)


def _resolve_type(cls: type[Struct], name: str, hint: Any) -> FieldType:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        variants = [variant for variant in typing.get_args(hint) if variant is not types.NoneType]
        if len(variants) == 1:
            return _resolve_type(cls, name, variants[0])
    elif typing.get_origin(hint) is list:
        return ArrayType(_resolve_type(cls, name, typing.get_args(hint)[0]))
    elif isinstance(hint, type) and issubclass(hint, Struct):
        return StructType(hint)
    for marker in getattr(hint, "__metadata__", ()):
        if isinstance(marker, Fixed | Sized):
            return marker
    raise TypeError(f"{cls.__name__}.{name} has a type that the protocol does not know: {hint!r}")
