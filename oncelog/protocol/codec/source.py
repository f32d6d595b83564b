"""What the generators of decoders and encoders share: the lines of a function, its constants, and local names.

A generated function is registered with linecache, so a traceback shows its lines and a debugger steps through them.
"""

from __future__ import annotations

import linecache
import struct
from typing import Any

from oncelog.protocol.codec.plan import FieldPlan, StructPlan, make_plan
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.schema import Message

_LENGTH_PREFIXED = ("string", "bytes", "records", "array", "struct")


class Source:
    """The lines of one function, and what their names stand for."""

    direction: str
    signature: str

    def __init__(self, message: type[Message], version: int) -> None:
        self.title = f"{message.__name__} v{version}"
        self.name = f"{self.direction}_{message.__name__}_v{version}"
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"ProtocolError": ProtocolError, "struct": struct}
        self.depth = 1
        self.names = 0
        self.write_body(make_plan(message, version))

    def write_body(self, plan: StructPlan) -> None:
        raise NotImplementedError

    def __str__(self) -> str:
        return f"def {self.name}({self.signature}):\n" + "\n".join(self.lines) + "\n"

    def compile(self) -> Any:
        text = str(self)
        filename = f"<{self.direction} {self.title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.constants)
        return self.constants[self.name]

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def constant(self, stem: str, value: Any) -> str:
        for name, existing in self.constants.items():
            if existing is value:
                return name
        name = f"{stem}_{len(self.constants)}"
        self.constants[name] = value
        return name


def is_fixed(kind: str) -> bool:
    return kind not in _LENGTH_PREFIXED


def group_fixed(fields: tuple[FieldPlan, ...]) -> list[list[FieldPlan]]:
    """The fields in order, with fixed-width neighbours grouped: a group takes one `struct` call."""
    groups: list[list[FieldPlan]] = []
    for field in fields:
        if groups and is_fixed(field.value.kind) and is_fixed(groups[-1][-1].value.kind):
            groups[-1].append(field)
        else:
            groups.append([field])
    return groups


def struct_format(group: list[FieldPlan]) -> str:
    return ">" + "".join(field.value.kind for field in group)
