"""What the tests of the codec share: every declared message, and hypothesis strategies for its values."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from oncelog.protocol import messages
from oncelog.protocol.primitives import Fixed, Sized
from oncelog.protocol.schema import OWN_TAG_FIRST, ArrayType, Field, FieldType, Message, Struct, StructType, default_of

# There are hundreds of message versions, so each gets a small share of a usual test's examples. The profile
# `fuzz` raises both.
EXAMPLES = max(3, settings().max_examples // 33)


def _declared() -> list[type[Message]]:
    found = []
    for module in pkgutil.iter_modules(messages.__path__):
        for value in vars(import_module(f"{messages.__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found.append(value)
    return found


MESSAGES = _declared()
MESSAGE_VERSIONS = [
    (message, version) for message in MESSAGES for version in range(message.VERSIONS.first, message.VERSIONS.last + 1)
]


def name_of(value: object) -> str:
    """The id of a parameter: `FetchRequest-v12`."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


_FIXED: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
}
_SIZED: dict[str, st.SearchStrategy[Any]] = {
    # The second alternative crosses the length at which a varint takes two bytes.
    "string": st.text(max_size=12) | st.integers(120, 140).map(lambda size: "x" * size),
    "bytes": st.binary(max_size=12) | st.integers(120, 140).map(bytes),
    "records": st.binary(max_size=40),
}


def is_own(field: Field) -> bool:
    """Whether only Oncelog knows the field."""
    return field.tag is not None and field.tag >= OWN_TAG_FIRST


@cache
def values(struct: type[Struct], version: int, *, own: bool = True) -> st.SearchStrategy[Any]:
    """Instances whose fields of `version` are arbitrary and whose other fields, and those of our own unless `own`,
    have their defaults."""
    fields = {
        field.name: _field_values(field, version, own)
        for field in struct.fields()
        if version in field.versions and (own or not is_own(field))
    }
    return st.fixed_dictionaries(fields).map(lambda given: struct(**given))


def _field_values(field: Field, version: int, own: bool) -> st.SearchStrategy[Any]:
    strategy = _type_values(field.type, version, own)
    if version in field.nullable:
        strategy = st.none() | strategy
    if version in field.tagged:
        # Defaults are left out of the encoding; they must come often enough to be seen.
        strategy = st.builds(default_of, st.just(field)) | strategy
    return strategy


def _type_values(kind: FieldType, version: int, own: bool) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed():
            return _FIXED[kind.name]
        case Sized():
            return _SIZED[kind.name]
        case ArrayType(element):
            return st.lists(_type_values(element, version, own), max_size=3)
        case StructType(struct):
            return values(struct, version, own=own)


_SAMPLES: dict[str, Any] = {"bool": True, "float64": 0.5, "uuid": bytes(range(16)), "string": "ab"}


def sample(struct: type[Struct], version: int) -> Any:
    """A small instance in which nothing is null or empty, so that its encoding has every part."""
    fields = (field for field in struct.fields() if version in field.versions)
    return struct(**{field.name: _type_sample(field.type, version) for field in fields})


def _type_sample(kind: FieldType, version: int) -> Any:
    match kind:
        case Fixed():
            return _SAMPLES.get(kind.name, 3)
        case Sized():
            return _SAMPLES.get(kind.name, b"ab")
        case ArrayType(element):
            return [_type_sample(element, version)]
        case StructType(struct):
            return sample(struct, version)
