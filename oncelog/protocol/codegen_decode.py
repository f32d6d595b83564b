"""Generates the decoder of one message version. See `protocol.compiler` for what it promises."""

from __future__ import annotations

import struct

from oncelog.protocol.codegen import Writer, fixed_format
from oncelog.protocol.errors import TooManyElementsError
from oncelog.protocol.primitives import UNKNOWN_TAGS_MAX, Fixed, Sized, decode_uvarint, skip_tags
from oncelog.protocol.schema import ArrayType, Field, FieldType, Struct, StructType, default_of

# Kafka refuses longer strings in all versions, so that whatever one version brought another can answer.
STRING_SIZE_BYTES_MAX = 0x7FFF


class DecodeWriter(Writer):
    direction = "decode"
    signature = "buf, pos, budget"

    def write_body(self) -> None:
        self.constants |= {"uvarint": decode_uvarint, "skip_tags": skip_tags, "make": object.__new__}
        self.constants["TooManyElementsError"] = TooManyElementsError
        self.line("end = len(buf)")
        self.struct("m", self.message)
        self.line("return m, pos")

    def struct(self, target: str, cls: type[Struct]) -> None:
        self.line(f"{target} = make({self.constant('new', cls)})")
        present = self.present(cls)
        for run in self.runs(present):
            if isinstance(run[0].type, Fixed):
                self.fixed(target, run)
            else:
                self.value(f"{target}.{run[0].name}", run[0].type, self.nullable(run[0]), run[0].flexible)
        for field in cls.fields():
            if field not in present:
                self.line(f"{target}.{field.name} = {self.default(field)}")
        if self.flexible:
            self.tagged_section(target, cls)

    def nullable(self, field: Field) -> bool:
        return self.version in field.nullable

    def default(self, field: Field) -> str:
        value = default_of(field)
        if isinstance(value, Struct):
            return f"{self.constant('new', type(value))}()"
        return "[]" if value == [] and not isinstance(value, bytes) else repr(value)

    def fixed(self, target: str, run: list[Field]) -> None:
        packer = struct.Struct(fixed_format(run))
        unpack = self.constant("unpack", packer.unpack_from)
        names = ", ".join(f"{target}.{field.name}" for field in run)
        self.line(f"({names},) = {unpack}(buf, pos)")
        self.line(f"pos += {packer.size}")

    def uvarint(self, target: str) -> None:
        self.line(f"{target} = buf[pos]")
        self.line("pos += 1")
        self.line(f"if {target} > 127: {target}, pos = uvarint(buf, pos - 1)")

    def length(self, target: str, prefix: str, flexible: bool) -> None:
        """Read a length; null becomes -1 in both encodings."""
        if flexible:
            self.uvarint(target)
            self.line(f"{target} -= 1")
        else:
            packer = struct.Struct(prefix)
            self.line(f"({target},) = {self.constant('unpack', packer.unpack_from)}(buf, pos)")
            self.line(f"pos += {packer.size}")

    def refuse(self, reason: str) -> None:
        self.line(f"    raise ProtocolError({f'{self.message.__name__} v{self.version}: {reason}'!r})")

    def value(self, target: str, kind: FieldType, nullable: bool, flexible: bool = True) -> None:
        match kind:
            case Fixed():
                packer = struct.Struct(">" + kind.code)
                self.line(f"({target},) = {self.constant('unpack', packer.unpack_from)}(buf, pos)")
                self.line(f"pos += {packer.size}")
            case Sized():
                self.sized(target, kind, nullable, flexible)
            case ArrayType(element):
                self.array(target, element, nullable)
            case StructType(cls):
                self.nested(target, cls, nullable)

    def sized(self, target: str, kind: Sized, nullable: bool, flexible: bool) -> None:
        size = self.fresh("n")
        self.length(size, ">h" if kind.name == "string" else ">i", self.flexible and flexible)
        self.null_or_negative(target, size, nullable, f"a {kind.name}")
        if nullable:
            self.depth += 1
        self.line(f"if {size} > end - pos:")
        self.refuse(f"a {kind.name} is longer than the bytes left")
        if kind.name == "string" and self.flexible and flexible:
            self.line(f"if {size} > {STRING_SIZE_BYTES_MAX}:")
            self.refuse("a string is longer than an older version could carry")
        view = f"buf[pos:pos + {size}]"
        value = {"string": f"str({view}, 'utf-8')", "bytes": f"bytes({view})", "records": view}[kind.name]
        self.line(f"{target} = {value}")
        self.line(f"pos += {size}")
        if nullable:
            self.depth -= 1

    def null_or_negative(self, target: str, size: str, nullable: bool, what: str) -> None:
        """Handle a length below zero; the code for a value follows (inside `else` when nullable)."""
        if nullable:
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

    def array(self, target: str, element: FieldType, nullable: bool) -> None:
        count = self.fresh("n")
        self.length(count, ">i", self.flexible)
        self.null_or_negative(target, count, nullable, "an array")
        if nullable:
            self.depth += 1
        self.line(f"if {count} * {self.size_min(element)} > end - pos:")
        self.refuse("an array claims more elements than fit")
        self.line(f"budget -= {count}")
        self.line("if budget < 0:")
        self.line("    raise TooManyElementsError")
        if isinstance(element, Fixed):
            self.fixed_array(target, element, count)
        else:
            items, item = self.fresh("items"), self.fresh("m")
            self.line(f"{target} = {items} = []")
            self.line(f"for _ in range({count}):")
            self.depth += 1
            self.value(item, element, False)
            self.line(f"{items}.append({item})")
            self.depth -= 1
        if nullable:
            self.depth -= 1

    def fixed_array(self, target: str, element: Fixed, count: str) -> None:
        # A format has one item however long the array is, because `struct` keeps the last formats compiled.
        if element.code == "16s":
            unpack = self.constant("unpack", struct.Struct(">16s").iter_unpack)
            self.line(f"{target} = [uuid for (uuid,) in {unpack}(buf[pos:pos + {count} * 16])]")
        else:
            self.line(f"{target} = list(struct.unpack_from(f'>{{{count}}}{element.code}', buf, pos))")
        self.line(f"pos += {count} * {element.size_bytes}")

    def nested(self, target: str, cls: type[Struct], nullable: bool, tagged: bool = False) -> None:
        """A struct in a field; a nullable one is preceded by a byte, 1 for present and -1 for null.

        In a tagged field Kafka writes 0 for null, because there the byte is a varint.
        """
        if not nullable:
            inner = self.fresh("m") if "." in target else target
            self.struct(inner, cls)
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
        self.struct(inner, cls)
        self.line(f"{target} = {inner}")
        self.depth -= 1

    def tagged_section(self, target: str, cls: type[Struct]) -> None:
        """Known tags are decoded, others skipped; a tag must not come twice."""
        count, tag, size, stop, last = (self.fresh(stem) for stem in ("n", "tag", "n", "end", "last"))
        known = self.tagged(cls)
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
            if isinstance(field.type, StructType):
                self.nested(f"{target}.{field.name}", field.type.struct, self.nullable(field), tagged=True)
            else:
                self.value(f"{target}.{field.name}", field.type, self.nullable(field))
            self.line(f"if pos != {stop}:")
            self.refuse(f"the tagged field {field.name} does not fill its size")
            self.depth -= 1
        self.line("else:")
        self.line(f"    pos = {stop}")
        self.depth -= 2

    def size_min(self, kind: FieldType) -> int:
        """The fewest bytes that a value can take, to check a count before allocating."""
        match kind:
            case Fixed():
                return kind.size_bytes
            case Sized():
                return 1 if self.flexible else (2 if kind.name == "string" else 4)
            case ArrayType():
                return 1 if self.flexible else 4
            case StructType(cls):
                sizes = (
                    1 if isinstance(field.type, StructType) and self.nullable(field) else self.size_min(field.type)
                    for field in self.present(cls)
                )
                return max(1, sum(sizes) + self.flexible)
