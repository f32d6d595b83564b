"""The index of aborted transactions of a segment (`.txnindex`).

It belongs to the segment that holds the abort marker, and exists only if there is one. Byte layout: entries
of 34 bytes, big-endian, ascending in the last offset:

    int16  version, 0
    int64  producer id
    int64  first offset of the transaction
    int64  last offset: the offset of the abort marker
    int64  last stable offset at the time of the abort: below it every transaction was decided

Both the last offset and the last field ascend. The last field says when a search may stop: a transaction that is
aborted later began at or after it.
"""

from __future__ import annotations

import struct
from array import array

from oncelog.broker.log import entry_file
from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.entry_file import Reader
from oncelog.named_tuple import NamedTuple

ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = ENTRY.size
VERSION = 0
OFFSET_MAX = 2**63 - 1
BLOCK_ENTRIES = 128
_FIRST_OFFSET, _LAST_OFFSET, _STABLE_OFFSET = 2, 3, 4
_UNKNOWN = -1


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(aborted: list[AbortedTxn]) -> bytes:
    return b"".join(ENTRY.pack(VERSION, *txn) for txn in aborted)


def decode(data: bytes | bytearray) -> list[AbortedTxn]:
    """Raises ValueError for a torn file or a version from the future."""
    if len(data) % ENTRY_SIZE:
        raise ValueError(f"{len(data)} bytes are not a multiple of {ENTRY_SIZE}")
    aborted = []
    for version, *fields in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise ValueError(f"version {version} is unknown")
        aborted.append(AbortedTxn(*fields))
    return aborted


class TxnIndex:
    """The entries of one segment: those in the file, and behind them new ones that are only in memory.

    A transaction that stays open keeps the stable offset where it is, and the entries that are added meanwhile all
    have the same. So the least first offset of every block of entries is remembered once it is known, and a search
    skips the blocks whose transactions all began behind its end.
    """

    __slots__ = ("_disk", "_file_exists", "_least", "_tail", "_tail_start", "_torn_bytes", "count", "path")

    def __init__(self, disk: Disk, path: str, file_bytes: int | None = None) -> None:
        """`file_bytes` is None if there is no file. An empty one is written, too: its old content may be on disk."""
        self.path = path
        self.count, self._torn_bytes = divmod(file_bytes or 0, ENTRY_SIZE)
        self._disk = disk
        self._file_exists = file_bytes is not None
        self._tail = bytearray()
        self._tail_start = self.count
        """The number of the first entry in memory. It begins a block, unless there is none in memory."""
        self._least = array("q", [_UNKNOWN]) * _block_count(self.count)

    @property
    def is_empty(self) -> bool:
        return not (self.count or self._torn_bytes)

    def copy(self) -> TxnIndex:
        """The index as it is now, for another thread."""
        copied = TxnIndex(self._disk, self.path)
        copied.count = self.count
        copied._torn_bytes = self._torn_bytes
        copied._tail = self._tail[:]
        copied._tail_start = self._tail_start
        copied._least = self._least[:]
        return copied

    def prepare_append(self) -> None:
        """Does the part of `append` that may fail."""
        with self._reader() as reader:
            if self._tail_start % BLOCK_ENTRIES:
                number = self._tail_start // BLOCK_ENTRIES
                self._tail = bytearray(self._read_block(reader, number))
                self._tail_start = number * BLOCK_ENTRIES

    def append(self, txn: AbortedTxn) -> None:
        self.prepare_append()
        self._tail += ENTRY.pack(VERSION, *txn)
        number = self.count // BLOCK_ENTRIES
        if number == len(self._least):
            self._least.append(txn.first_offset)
        else:
            self._least[number] = min(self._least[number], txn.first_offset)
        self.count += 1

    def collect(self, start: int, end: int, into: list[AbortedTxn]) -> bool:
        """Adds the transactions that touch [start, end); True if no later entry can touch it."""
        if self.is_empty:
            return False
        with self._reader() as reader:
            newest = self._entry(reader, self.count - 1)
            if newest[_LAST_OFFSET] >= start:
                first = self._find_block(reader, _LAST_OFFSET, start)
                last = self._find_block(reader, _STABLE_OFFSET, end)
                for number in range(first, last + 1):
                    if self._least[number] < end:
                        into += self._search_block(reader, number, start, end)
            return newest[_STABLE_OFFSET] >= end

    def end_of(self, start: int, count: int) -> int:
        """The offset behind a marker that is about `count` markers behind `start`, or the largest offset."""
        if self.count <= count:
            return OFFSET_MAX
        with self._reader() as reader:
            number = (self._find_block(reader, _LAST_OFFSET, start) + 1) * BLOCK_ENTRIES + count
            return self._entry(reader, number)[_LAST_OFFSET] + 1 if number < self.count else OFFSET_MAX

    def truncate_to(self, offset: int) -> None:
        """Forgets transactions whose marker is at or behind `offset`; the file follows at the next `write`."""
        if self.is_empty:
            return
        with self._reader() as reader:
            number = self._find_block(reader, _LAST_OFFSET, offset)
            kept = [txn for txn in decode(self._read_block(reader, number)) if txn.last_offset < offset]
        self.count = number * BLOCK_ENTRIES
        self._tail_start = self.count
        self._tail = bytearray()
        del self._least[number:]
        for txn in kept:
            self.append(txn)

    def reset(self) -> None:
        self.count = self._tail_start = self._torn_bytes = 0
        self._tail = bytearray()
        self._least = array("q")

    def write(self) -> int | None:
        """Brings the file up to date; returns its descriptor for the caller to sync and close, None without a file."""
        if not (self.count or self._file_exists):
            return None
        fd = entry_file.write_tail(self._disk, self.path, bytes(self._tail), self._tail_start * ENTRY_SIZE)
        self._file_exists = True
        self._tail = bytearray()
        self._tail_start = self.count
        return fd

    # -- blocks ----------------------------------------------------------------------------------------------

    def _find_block(self, reader: Reader, field: int, target: int) -> int:
        """The first block that ends with a `field` of at least `target`, or else the last one."""
        low, high = 0, len(self._least) - 1
        while low < high:
            middle = (low + high) // 2
            if self._entry(reader, (middle + 1) * BLOCK_ENTRIES - 1)[field] < target:
                low = middle + 1
            else:
                high = middle
        return low

    def _search_block(self, reader: Reader, number: int, start: int, end: int) -> list[AbortedTxn]:
        block = self._read_block(reader, number)
        if self._least[number] == _UNKNOWN:
            self._least[number] = min(entry[_FIRST_OFFSET] for entry in ENTRY.iter_unpack(block))
        return [
            AbortedTxn(producer_id, first, last, stable)
            for _, producer_id, first, last, stable in ENTRY.iter_unpack(block)
            if last >= start and first < end
        ]

    def _entry(self, reader: Reader, number: int) -> tuple[int, ...]:
        return ENTRY.unpack(self._read(reader, number, 1))

    def _read_block(self, reader: Reader, number: int) -> bytes | bytearray:
        first = number * BLOCK_ENTRIES
        return self._read(reader, first, min(BLOCK_ENTRIES, self.count - first))

    def _read(self, reader: Reader, number: int, count: int) -> bytes | bytearray:
        if number >= self._tail_start:
            at = (number - self._tail_start) * ENTRY_SIZE
            return self._tail[at : at + count * ENTRY_SIZE]
        entries = reader.read(count * ENTRY_SIZE, number * ENTRY_SIZE)
        for version, *_ in ENTRY.iter_unpack(entries):
            if version != VERSION:
                raise StorageError(f"{self.path} is damaged: version {version} is unknown")
        return entries

    def _reader(self) -> Reader:
        if self._torn_bytes:
            raise StorageError(f"{self.path} is damaged: {self._torn_bytes} bytes follow its last entry")
        return Reader(self._disk, self.path)


def _block_count(entry_count: int) -> int:
    return -(-entry_count // BLOCK_ENTRIES)
