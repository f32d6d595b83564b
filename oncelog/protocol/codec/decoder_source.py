"""Generates the Python decoder of one message version from its plan. `codec` says what it promises."""

from __future__ import annotations

import struct

from oncelog.protocol.codec.plan import AbsentPlan, FieldPlan, StructPlan, ValuePlan
from oncelog.protocol.codec.source import Source, group_fixed, is_fixed, struct_format
from oncelog.protocol.errors import TooManyElementsError
from oncelog.protocol.primitives import STRING_SIZE_BYTES_MAX, UNKNOWN_TAGS_MAX, decode_uvarint, skip_tags


class DecoderSource(Source):
    direction = "decode"
    signature = "buf, pos, budget"

    def write_body(self, plan: StructPlan) -> None:
        self.constants |= {"uvarint": decode_uvarint, "skip_tags": skip_tags, "make": object.__new__}
        self.constants["TooManyElementsError"] = TooManyElementsError
        self.line("end = len(buf)")
        self.struct("m", plan)
        self.line("return m, pos")

    def struct(self, target: str, plan: StructPlan) -> None:
        self.line(f"{target} = make({self.constant('new', plan.cls)})")
        for group in group_fixed(plan.fields):
            if is_fixed(group[0].value.kind):
                self.fixed_group(target, group)
            else:
                self.value(f"{target}.{group[0].name}", group[0].value)
        for absent in plan.absent:
            self.line(f"{target}.{absent.name} = {self.default(absent)}")
        if plan.flexible:
            self.tagged_section(target, plan)

    def default(self, absent: AbsentPlan) -> str:
        if absent.factory is list:
            return "[]"
        return f"{self.constant('new', absent.factory)}()" if absent.factory else repr(absent.constant)

    def fixed_group(self, target: str, group: list[FieldPlan]) -> None:
        self.unpack(", ".join(f"{target}.{field.name}" for field in group), struct_format(group))

    def unpack(self, targets: str, layout: str) -> None:
        packer = struct.Struct(layout)
        self.line(f"({targets},) = {self.constant('unpack', packer.unpack_from)}(buf, pos)")
        self.line(f"pos += {packer.size}")

    def uvarint(self, target: str) -> None:
        self.line(f"{target} = buf[pos]")
        self.line("pos += 1")
        self.line(f"if {target} > 127: {target}, pos = uvarint(buf, pos - 1)")

    def length(self, target: str, plan: ValuePlan) -> None:
        """Read a length; null becomes -1 in both encodings."""
        if plan.compact:
            self.uvarint(target)
            self.line(f"{target} -= 1")
        else:
            self.unpack(target, ">h" if plan.kind == "string" else ">i")

    def refuse(self, reason: str) -> None:
        self.line(f"    raise ProtocolError({f'{self.title}: {reason}'!r})")

    def value(self, target: str, plan: ValuePlan) -> None:
        match plan.kind:
            case "string" | "bytes" | "records":
                self.sized(target, plan)
            case "array":
                self.array(target, plan)
            case "struct":
                self.nested(target, plan)
            case _:
                self.unpack(target, f">{plan.kind}")

    def sized(self, target: str, plan: ValuePlan) -> None:
        size = self.fresh("n")
        self.length(size, plan)
        self.null_or_negative(target, size, plan, f"a {plan.kind}")
        self.depth += plan.nullable
        self.line(f"if {size} > end - pos:")
        self.refuse(f"a {plan.kind} is longer than the bytes left")
        if plan.kind == "string" and plan.compact:
            self.line(f"if {size} > {STRING_SIZE_BYTES_MAX}:")
            self.refuse("a string is longer than an older version could carry")
        view = f"buf[pos:pos + {size}]"
        value = {"string": f"str({view}, 'utf-8')", "bytes": f"bytes({view})", "records": view}[plan.kind]
        self.line(f"{target} = {value}")
        self.line(f"pos += {size}")
        self.depth -= plan.nullable

    def null_or_negative(self, target: str, size: str, plan: ValuePlan, what: str) -> None:
        """Handle a length below zero; the code for a value follows (inside `else` when nullable)."""
        if plan.nullable:
            self.line(f"if {size} < 0:")
            self.depth += 1
            self.line(f"if {size} != -1:")
            self.refuse(f"{what} has a negative length")
            self.line(f"{target} = None")
            self.depth -= 1
            self.line("else:")
        else:
            self.line(f"if {size} < 0:")
            self.refuse(f"{what} that may not be null is null or negative")

    def array(self, target: str, plan: ValuePlan) -> None:
        element = plan.element
        assert element is not None
        count = self.fresh("n")
        self.length(count, plan)
        self.null_or_negative(target, count, plan, "an array")
        self.depth += plan.nullable
        self.line(f"if {count} * {element.size_min} > end - pos:")
        self.refuse("an array claims more elements than fit")
        self.line(f"budget -= {count}")
        self.line("if budget < 0:")
        self.line("    raise TooManyElementsError")
        if is_fixed(element.kind):
            self.fixed_array(target, element, count)
        else:
            items, item = self.fresh("items"), self.fresh("m")
            self.line(f"{target} = {items} = []")
            self.line(f"for _ in range({count}):")
            self.depth += 1
            self.value(item, element)
            self.line(f"{items}.append({item})")
            self.depth -= 1
        self.depth -= plan.nullable

    def fixed_array(self, target: str, element: ValuePlan, count: str) -> None:
        # A format has one item however long the array is, because `struct` keeps the last formats compiled.
        if element.kind == "16s":
            unpack = self.constant("unpack", struct.Struct(">16s").iter_unpack)
            self.line(f"{target} = [uuid for (uuid,) in {unpack}(buf[pos:pos + {count} * 16])]")
        else:
            self.line(f"{target} = list(struct.unpack_from(f'>{{{count}}}{element.kind}', buf, pos))")
        self.line(f"pos += {count} * {element.size_min}")

    def nested(self, target: str, plan: ValuePlan, tagged: bool = False) -> None:
        """A struct in a field; a nullable one is preceded by a byte, 1 for present and -1 for null.

        In a tagged field Kafka writes 0 for null, because there the byte is a varint.
        """
        assert plan.struct is not None
        if not plan.nullable:
            inner = self.fresh("m") if "." in target else target
            self.struct(inner, plan.struct)
            if inner != target:
                self.line(f"{target} = {inner}")
            return
        present = self.fresh("n")
        self.line(f"{present} = buf[pos]")
        self.line("pos += 1")
        self.line(f"if {present} == 0:" if tagged else f"if {present} > 127:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.depth += 1
        inner = self.fresh("m")
        self.struct(inner, plan.struct)
        self.line(f"{target} = {inner}")
        self.depth -= 1

    def tagged_section(self, target: str, plan: StructPlan) -> None:
        """Known tags are decoded, others skipped; a tag must not come twice."""
        count, tag, size, stop, last = (self.fresh(stem) for stem in ("n", "tag", "n", "end", "last"))
        known = plan.tagged
        self.uvarint(count)
        if not known:
            self.line(f"if {count}: pos = skip_tags(buf, pos, {count})")
            return
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > {UNKNOWN_TAGS_MAX + len(known)}:")
        self.refuse("more tagged fields than any client sends")
        self.line(f"{last} = -1")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        self.uvarint(tag)
        self.line(f"if {tag} <= {last}:")
        self.refuse("tagged fields are repeated or out of order")
        self.line(f"{last} = {tag}")
        self.uvarint(size)
        self.line(f"{stop} = pos + {size}")
        self.line(f"if {stop} > end:")
        self.refuse("a tagged field is longer than the bytes left")
        for index, field in enumerate(known):
            self.line(f"{'elif' if index else 'if'} {tag} == {field.tag}:")
            self.depth += 1
            if field.value.kind == "struct":
                self.nested(f"{target}.{field.name}", field.value, tagged=True)
            else:
                self.value(f"{target}.{field.name}", field.value)
            self.line(f"if pos != {stop}:")
            self.refuse(f"the tagged field {field.name} does not fill its size")
            self.depth -= 1
        self.line("else:")
        self.line(f"    pos = {stop}")
        self.depth -= 2
