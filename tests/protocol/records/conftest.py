"""Fixtures for the record tests: both implementations of the scan, and bytes that Apache Kafka wrote."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING

import pytest

from oncelog.protocol.records import scan, validation
from oncelog.protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

with warnings.catch_warnings():
    # kafka-python calls deprecated functions while it is imported, and warnings are errors in the tests.
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("kafka.record.default_records")


T0 = 1_700_000_000_000

# What MemoryRecords of kafka-clients 4.3.0 gives for the records of `java_records`.
JAVA_BATCHES = {
    "plain": """
        00000000000000070000005a0000000902cc74876b0000000000020000018bcfe568000000018bcfe5680500
        000000000004d200050000002a0000000310000000026b02760028000a02010a76616c756504026804010204
        c3a9011400010408746f6d620100
    """,
    "transactional": """
        00000000000000000000005affffffff024fd269ab0010000000020000018bcfe568000000018bcfe5680500
        000000000004d200050000002a0000000310000000026b02760028000a02010a76616c756504026804010204
        c3a9011400010408746f6d620100
    """,
    "commit": """
        000000000000000f000000420000000302128285e60030000000000000018bcfe568000000018bcfe5680000
        000000000004d20005ffffffff000000012000000008000000010c00000000000b00
    """,
    "abort": """
        000000000000000f000000420000000302e6bc53ae0030000000000000018bcfe568000000018bcfe5680000
        000000000004d20005ffffffff000000012000000008000000000c00000000000b00
    """,
    "gzip": """
        00000000000000000000006effffffff0289336ba40001000000020000018bcfe568000000018bcfe56805ff
        ffffffffffffffffffffffffff000000031f8b08000000000000ff1360606060ca662a63d060e06262e42a4b
        cc294d6561ca6061646239bc925184819185a3243f378991010082dd895529000000
    """,
    "snappy": """
        000000000000000000000070ffffffff02f15be07b0002000000020000018bcfe568000000018bcfe56805ff
        ffffffffffffffffffffffffff0000000382534e415050590000000001000000010000002b29a01000000002
        6b02760028000a02010a76616c756504026804010204c3a9011400010408746f6d620100
    """,
    "lz4": """
        000000000000000000000069ffffffff02e4f22f520003000000020000018bcfe568000000018bcfe56805ff
        ffffffffffffffffffffffffff0000000304224d186040822900008010000000026b02760028000a02010a76
        616c756504026804010204c3a9011400010408746f6d62010000000000
    """,
    "zstd": """
        000000000000000000000066ffffffff02189957380004000000020000018bcfe568000000018bcfe56805ff
        ffffffffffffffffffffffffff0000000328b52ffd005848010010000000026b02760028000a02010a76616c
        756504026804010204c3a9011400010408746f6d620100010000
    """,
}


@pytest.fixture(scope="session")
def java_batches() -> dict[str, bytes]:
    return {name: bytes.fromhex(text) for name, text in JAVA_BATCHES.items()}


@pytest.fixture(scope="session")
def java_records() -> list[Record]:
    return [
        Record(0, T0, b"k", b"v"),
        Record(1, T0 + 5, None, b"value", [("h", b"\x01\x02"), ("é", None)]),
        Record(2, T0 - 1, b"tomb", None),
    ]


@pytest.fixture(scope="module", params=["native", "plain"])
def scanner(request: pytest.FixtureRequest) -> Iterator[type[scan.RecordScanner]]:
    """Each implementation of the scan in turn, also put to use in `validation`; the plain one without fast paths."""
    implementation = scan.RecordScanner
    if request.param == "native":
        try:
            implementation = importlib.import_module("oncelog.protocol.records._native").RecordScanner
        except ImportError:
            pytest.skip("the C extension is not built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "RecordScanner", implementation)
        if request.param == "plain":
            patch.setattr(validation, "read_plain_batch", lambda *_: None)
        yield implementation
