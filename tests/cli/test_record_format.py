from __future__ import annotations

import pytest

from oncelog.cli.escapes import unescape
from oncelog.cli.record_format import FormatError, compile_format
from oncelog.client.consumer import ConsumedRecord
from oncelog.protocol.records.batch import TimestampType
from oncelog.protocol.records.record import Record


def show(text: str, record: Record) -> bytes:
    return compile_format(text, "orders")(ConsumedRecord(3, TimestampType.CREATE_TIME, record))


def test_every_token() -> None:
    record = Record(7, 1000, b"\xffk", b"v\xfe", [("a", b"1"), ("b", None)])
    assert show("%t|%p|%o|%k|%v|%s|%T|%h|%K|%S|%%", record) == (b"orders|3|7|\xffk|v\xfe|v\xfe|1000|a=1,b=NULL|2|2|%")


def test_nulls() -> None:
    assert show("%k|%v|%h|%K|%S", Record(0, -1, None, None)) == b"|||-1|-1"


def test_text_and_escapes() -> None:
    assert show(r"\x00é\n", Record(0, 0, None, None)) == b"\0" + "é".encode() + b"\n"


@pytest.mark.parametrize("text", ["%", "%q", "a%"])
def test_tokens_that_do_not_exist(text: str) -> None:
    with pytest.raises(FormatError, match="is no token"):
        compile_format(text, "orders")


@pytest.mark.parametrize(
    ("text", "expected"), [(r"\n\r\t\0", b"\n\r\t\0"), (r"\\n", rb"\n"), (r"\x41\xff", b"A\xff"), (r"\q\x4", rb"\q\x4")]
)
def test_escapes(text: str, expected: bytes) -> None:
    assert unescape(text) == expected
