"""What the two code generators share: the lines of a function, its constants, and a version's fields."""

from __future__ import annotations

import linecache
import struct
from typing import Any

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import Fixed
from oncelog.protocol.schema import Field, Message, Struct


class Writer:
    """The lines of one function, the constants that they name, and a supply of fresh local names."""

    direction: str
    signature: str

    def __init__(self, message: type[Message], version: int) -> None:
        if version not in message.VERSIONS:
            raise AssertionError(f"{message.__name__} has no version {version}")
        self.message = message
        self.version = version
        self.flexible = version in message.FLEXIBLE
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"ProtocolError": ProtocolError, "struct": struct}
        self.depth = 1
        self.names = 0

    def source(self) -> str:
        if not self.lines:
            self.write_body()
        name = f"{self.direction}_{self.message.__name__}_v{self.version}"
        return f"def {name}({self.signature}):\n" + "\n".join(self.lines) + "\n"

    def write_body(self) -> None:
        raise NotImplementedError

    def compile(self) -> Any:
        text = self.source()
        filename = f"<{self.direction} {self.message.__name__} v{self.version}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.constants)
        return self.constants[f"{self.direction}_{self.message.__name__}_v{self.version}"]

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

    def present(self, cls: type[Struct]) -> list[Field]:
        """The fields that stand in the body of this version, in order."""
        return [field for field in cls.fields() if self.version in field.versions and self.version not in field.tagged]

    def tagged(self, cls: type[Struct]) -> list[Field]:
        if not self.flexible:
            return []
        fields = [f for f in cls.fields() if self.version in f.versions and self.version in f.tagged]
        return sorted(fields, key=lambda field: field.tag or 0)

    def runs(self, fields: list[Field]) -> list[list[Field]]:
        """The fields with fixed-width neighbours brought together, to become one struct call."""
        runs: list[list[Field]] = []
        for field in fields:
            if isinstance(field.type, Fixed) and runs and isinstance(runs[-1][-1].type, Fixed):
                runs[-1].append(field)
            else:
                runs.append([field])
        return runs


def fixed_format(fields: list[Field]) -> str:
    return ">" + "".join(field.type.code for field in fields if isinstance(field.type, Fixed))
