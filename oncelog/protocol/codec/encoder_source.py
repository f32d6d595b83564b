"""Generates the Python encoder of one message version from its plan."""

from __future__ import annotations

import struct
from typing import Any

from oncelog.protocol.codec.plan import StructPlan, ValuePlan
from oncelog.protocol.codec.source import Source, group_fixed, is_fixed, struct_format
from oncelog.protocol.primitives import encode_uvarint


class EncoderSource(Source):
    direction = "encode"
    signature = "m, w"

    def write_body(self, plan: StructPlan) -> None:
        self.constants["uvarint"] = encode_uvarint
        self.struct("m", plan)
        if not self.lines:
            self.line("pass")

    def struct(self, value: str, plan: StructPlan) -> None:
        for group in group_fixed(plan.fields):
            if is_fixed(group[0].value.kind):
                fields = ", ".join(f"{value}.{field.name}" for field in group)
                self.line(f"w({self.pack(struct_format(group))}({fields}))")
            else:
                self.value(f"{value}.{group[0].name}", group[0].value)
        if plan.flexible:
            self.tagged_section(value, plan)

    def pack(self, layout: str) -> str:
        return self.constant("pack", struct.Struct(layout).pack)

    def length(self, local: str, plan: ValuePlan) -> str:
        if plan.compact:
            return f"uvarint(len({local}) + 1)"
        return f"{self.pack('>h' if plan.kind == 'string' else '>i')}(len({local}))"

    def value(self, value: str, plan: ValuePlan, tagged: bool = False) -> None:
        if is_fixed(plan.kind):
            self.line(f"w({self.pack(f'>{plan.kind}')}({value}))")
            return
        local = self.fresh("v")
        self.line(f"{local} = {value}")
        if plan.nullable:
            self.line(f"if {local} is None:")
            self.line(f"    w({_null(plan, tagged)!r})")
            self.line("else:")
            self.depth += 1
        match plan.kind:
            case "array":
                self.array(local, plan)
            case "struct":
                assert plan.struct is not None
                if plan.nullable:
                    self.line("w(b'\\x01')")
                self.struct(local, plan.struct)
            case _:
                if plan.kind == "string":
                    self.line(f"{local} = {local}.encode()")
                self.line(f"w({self.length(local, plan)}); w({local})")
        self.depth -= plan.nullable

    def array(self, local: str, plan: ValuePlan) -> None:
        element = plan.element
        assert element is not None
        self.line(f"w({self.length(local, plan)})")
        if is_fixed(element.kind) and element.kind != "16s":
            self.line(f"w(struct.pack(f'>{{len({local})}}{element.kind}', *{local}))")
            return
        item = self.fresh("m")
        self.line(f"for {item} in {local}:")
        self.depth += 1
        before = len(self.lines)
        if element.struct is None:
            self.value(item, element)
        else:
            self.struct(item, element.struct)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def tagged_section(self, value: str, plan: StructPlan) -> None:
        """Tagged fields are written only where they differ from their default."""
        if not plan.tagged:
            self.line("w(b'\\0')")
            return
        fields = self.fresh("tagged")
        self.line(f"{fields} = []")
        for field in plan.tagged:
            self.line(f"if {self.differs(f'{value}.{field.name}', field.value, field.default)}:")
            self.depth += 1
            outer, parts, joined = self.fresh("w"), self.fresh("parts"), self.fresh("v")
            self.line(f"{outer} = w; {parts} = []; w = {parts}.append")
            self.value(f"{value}.{field.name}", field.value, tagged=True)
            self.line(f"w = {outer}; {joined} = b''.join({parts})")
            self.line(f"{fields} += (uvarint({field.tag}), uvarint(len({joined})), {joined})")
            self.depth -= 1
        self.line(f"w(uvarint(len({fields}) // 3))")
        self.line(f"for part in {fields}: w(part)")

    def differs(self, value: str, plan: ValuePlan, default: Any) -> str:
        """The condition that a value is not the default; the fields of a struct are compared in place."""
        if default is None:
            return f"{value} is not None"
        if plan.struct is None:
            return f"{value} != {self.constant('default', default)}"
        names = [field.name for field in plan.struct.fields] + [absent.name for absent in plan.struct.absent]
        terms = [f"{value}.{name} != {self.constant('default', getattr(default, name))}" for name in names]
        return " or ".join([f"{value} is None", *terms])


def _null(plan: ValuePlan, tagged: bool) -> bytes:
    if plan.kind == "struct":
        return b"\0" if tagged else b"\xff"
    if plan.compact:
        return b"\0"
    return b"\xff\xff" if plan.kind == "string" else b"\xff\xff\xff\xff"
