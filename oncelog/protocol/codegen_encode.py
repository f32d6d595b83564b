"""Generates the encoder of one message version. See `protocol.compiler`."""

from __future__ import annotations

import struct
from typing import Any

from oncelog.protocol.codegen import Writer, fixed_format
from oncelog.protocol.primitives import Fixed, Sized, encode_uvarint
from oncelog.protocol.schema import ArrayType, FieldType, Struct, StructType, default_of


class EncodeWriter(Writer):
    direction = "encode"
    signature = "m, w"

    def write_body(self) -> None:
        self.constants["uvarint"] = encode_uvarint
        self.struct("m", self.message)
        if not self.lines:
            self.line("pass")

    def struct(self, value: str, cls: type[Struct]) -> None:
        for run in self.runs(self.present(cls)):
            if isinstance(run[0].type, Fixed):
                pack = self.constant("pack", struct.Struct(fixed_format(run)).pack)
                self.line(f"w({pack}({', '.join(f'{value}.{field.name}' for field in run)}))")
            else:
                field = run[0]
                self.value(f"{value}.{field.name}", field.type, self.version in field.nullable, field.flexible)
        if self.flexible:
            self.tagged_section(value, cls)

    def length(self, expression: str, prefix: str, flexible: bool) -> str:
        if flexible:
            return f"uvarint({expression} + 1)"
        return f"{self.constant('pack', struct.Struct(prefix).pack)}({expression})"

    def value(self, value: str, kind: FieldType, nullable: bool, flexible: bool = True, tagged: bool = False) -> None:
        if isinstance(kind, Fixed):
            self.line(f"w({self.constant('pack', struct.Struct('>' + kind.code).pack)}({value}))")
            return
        flexible = flexible and self.flexible
        local = self.fresh("v")
        self.line(f"{local} = {value}")
        if nullable:
            self.line(f"if {local} is None:")
            self.line(f"    w({self.null(kind, flexible, tagged)!r})")
            self.line("else:")
            self.depth += 1
        match kind:
            case Sized():
                if kind.name == "string":
                    self.line(f"{local} = {local}.encode()")
                prefix = self.length(f"len({local})", ">h" if kind.name == "string" else ">i", flexible)
                self.line(f"w({prefix}); w({local})")
            case ArrayType(element):
                self.array(local, element)
            case StructType(cls):
                if nullable:
                    self.line("w(b'\\x01')")
                self.struct(local, cls)
        if nullable:
            self.depth -= 1

    def null(self, kind: FieldType, flexible: bool, tagged: bool) -> bytes:
        match kind:
            case StructType():
                return b"\0" if tagged else b"\xff"
            case Sized(name="string"):
                return b"\0" if flexible else b"\xff\xff"
            case _:
                return b"\0" if flexible else b"\xff\xff\xff\xff"

    def array(self, local: str, element: FieldType) -> None:
        self.line(f"w({self.length(f'len({local})', '>i', self.flexible)})")
        if isinstance(element, Fixed):
            if element.code == "16s":
                self.line(f"for uuid in {local}: w({self.constant('pack', struct.Struct('>16s').pack)}(uuid))")
            else:
                self.line(f"w(struct.pack(f'>{{len({local})}}{element.code}', *{local}))")
            return
        item = self.fresh("m")
        self.line(f"for {item} in {local}:")
        self.depth += 1
        before = len(self.lines)
        if isinstance(element, StructType):
            self.struct(item, element.struct)
        else:
            self.value(item, element, False)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def tagged_section(self, value: str, cls: type[Struct]) -> None:
        """Tagged fields are written only where they differ from their default."""
        known = self.tagged(cls)
        if not known:
            self.line("w(b'\\0')")
            return
        fields = self.fresh("tagged")
        self.line(f"{fields} = []")
        for field in known:
            self.line(f"if {self.differs(f'{value}.{field.name}', field.type, default_of(field))}:")
            self.depth += 1
            outer = self.fresh("w")
            parts = self.fresh("parts")
            self.line(f"{outer} = w; {parts} = []; w = {parts}.append")
            nullable = self.version in field.nullable
            self.value(f"{value}.{field.name}", field.type, nullable, tagged=True)
            joined = self.fresh("v")
            self.line(f"w = {outer}; {joined} = b''.join({parts})")
            self.line(f"{fields} += (uvarint({field.tag}), uvarint(len({joined})), {joined})")
            self.depth -= 1
        self.line(f"w(uvarint(len({fields}) // 3))")
        self.line(f"for part in {fields}: w(part)")

    def differs(self, value: str, kind: FieldType, default: Any) -> str:
        """The condition that a value is not the default; the fields of a struct are compared in place."""
        if isinstance(kind, StructType) and default is not None:
            fields = kind.struct.fields()
            terms = [self.differs(f"{value}.{f.name}", f.type, getattr(default, f.name)) for f in fields]
            return " or ".join([f"{value} is None", *terms])
        if default is None:
            return f"{value} is not None"
        return f"{value} != {self.constant('default', default)}"
