"""The index of aborted transactions of a segment (`.txnindex`).

It belongs to the segment that holds the abort marker, and exists only if there is one. Byte layout: entries
of 34 bytes, big-endian, ascending in the last offset:

    int16  version, 0
    int64  producer id
    int64  first offset of the transaction
    int64  last offset: the offset of the abort marker
    int64  last stable offset at the time of the abort: below it every transaction was decided

The last field says when a search may stop: a transaction that is aborted later began at or after it.
"""

from __future__ import annotations

import struct

from oncelog.named_tuple import NamedTuple

ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = ENTRY.size
VERSION = 0


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(aborted: list[AbortedTxn]) -> bytes:
    return b"".join(ENTRY.pack(VERSION, *txn) for txn in aborted)


def decode(data: bytes) -> list[AbortedTxn]:
    """Raises ValueError for a torn file or a version from the future."""
    if len(data) % ENTRY_SIZE:
        raise ValueError(f"{len(data)} bytes are not a multiple of {ENTRY_SIZE}")
    aborted = []
    for version, *fields in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise ValueError(f"version {version} is unknown")
        aborted.append(AbortedTxn(*fields))
    return aborted


def collect(aborted: list[AbortedTxn], start: int, end: int, into: list[AbortedTxn]) -> bool:
    """Adds the transactions that touch [start, end); True if no later entry can touch it."""
    for txn in aborted:
        if txn.last_offset >= start and txn.first_offset < end:
            into.append(txn)
        if txn.last_stable_offset >= end:
            return True
    return False
