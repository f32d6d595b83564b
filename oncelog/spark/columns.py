"""The columns of a batch: which the sink takes, and of what type."""

from __future__ import annotations

from typing import Any

from oncelog.spark.errors import SinkError

_TEXT = ("string", "binary")
_TYPES = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


def check_columns(schema: Any, topic: str | None) -> list[str]:
    """The names of the columns that the sink takes, in order; other columns are ignored, as Spark's sink does."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise SinkError(f"there is no column `value`; the columns are {', '.join(types) or 'none'}")
    if topic is None and "topic" not in types:
        raise SinkError("there is no column `topic`, and the sink has no option `topic`")
    taken = [name for name in _TYPES if name in types and not (name == "topic" and topic is not None)]
    for name in taken:
        if types[name] not in _TYPES[name]:
            wanted = " or ".join(_TYPES[name])
            raise SinkError(f"the column `{name}` is {types[name]}; it must be {wanted}")
    return taken
