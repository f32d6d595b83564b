"""Producer snapshots (`<offset>.snapshot`): the producer state of a partition as of that offset.

Byte layout, big-endian (Apache Kafka's ProducerSnapshot, version 1):

    int16   version, 1
    uint32  CRC32C of everything that follows
    int32   number of entries, then for each
      int64   producer id
      int16   producer epoch
      int32   last sequence (-1 if no batch is known)
      int64   last offset (-1 if no batch is known)
      int32   offset delta: last minus first offset of that batch
      int64   timestamp of the producer's last append
      int32   coordinator epoch of the last transaction marker (-1 if none)
      int64   first offset of the open transaction (-1 if none)

Only the last of the five remembered batches is kept; a producer with an open transaction and no batch is
kept as well, since its marker is still to come.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from oncelog.broker.log.disk import Disk
from oncelog.broker.log.producer_entry import ProducerBatch, ProducerEntry
from oncelog.protocol.records.checksum import crc32c

VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_SEQUENCES = 2**31
_BLOCK_ENTRIES = 1024


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [_ENTRY.pack(*_fields(entry)) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(VERSION, crc32c(body)) + body


class GradualSnapshot:
    """A snapshot of very many producers, encoded in steps while they go on writing.

    It is of the moment in which it is made: an entry that is about to change, or to leave its slot, is encoded first.
    """

    __slots__ = ("_blocks", "_count", "_is_encoded", "_next_slot", "_slots", "offset")

    def __init__(self, offset: int, slots: list[ProducerEntry]) -> None:
        self.offset = offset
        self._slots = slots
        self._count = len(slots)
        self._is_encoded = bytearray(self._count)
        self._next_slot = 0
        self._blocks: dict[int, bytearray] = {}
        """The encoded entries, in blocks that are made when they are needed: to make them all at once takes long."""

    def encode(self, entry: ProducerEntry) -> None:
        slot = entry.slot
        if slot < self._count and not self._is_encoded[slot]:
            self._is_encoded[slot] = True
            number, at = divmod(slot, _BLOCK_ENTRIES)
            block = self._blocks.get(number)
            if block is None:
                size = min(_BLOCK_ENTRIES, self._count - number * _BLOCK_ENTRIES) * _ENTRY.size
                block = self._blocks[number] = bytearray(size)
            _ENTRY.pack_into(block, at * _ENTRY.size, *_fields(entry))

    def encode_some(self, count: int) -> bool:
        """Encodes the next entries; False if there are none left."""
        start = self._next_slot
        self._next_slot = min(start + count, self._count)
        # Entries that were removed, or added, meanwhile have their places behind those that stayed.
        for entry in self._slots[start : self._next_slot]:
            self.encode(entry)
        return self._next_slot > start

    def write(self, disk: Disk, path: str) -> None:
        """Writes and syncs the whole snapshot, once it is encoded. May run in another thread."""
        blocks: list[bytes | bytearray] = [_COUNT.pack(self._count)]
        blocks += [self._blocks[number] for number in range(len(self._blocks))]
        crc = 0
        for block in blocks:
            crc = crc32c(block, crc)
        fd = disk.write_new_file(path, _HEAD.pack(VERSION, crc))
        try:
            position = _HEAD.size
            for block in blocks:
                disk.pwrite_all(fd, block, position)
                position += len(block)
            disk.fdatasync(fd)
        finally:
            disk.close(fd)


def _fields(entry: ProducerEntry) -> tuple[int, ...]:
    last_sequence, last_offset, offset_delta = -1, -1, 0
    if entry.batches:
        batch = entry.batches[-1]
        last_sequence, last_offset = batch.last_sequence, batch.last_offset
        offset_delta = batch.last_offset - batch.first_offset
    return (
        entry.producer_id,
        entry.epoch,
        last_sequence,
        last_offset,
        offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def decode(data: bytes) -> list[ProducerEntry]:
    """Raises ValueError if the file is torn, changed, or of an unknown version."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise ValueError("shorter than its header")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"version {version} is unknown")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != crc:
        raise ValueError("the checksum is wrong")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise ValueError(f"{count} entries do not fill it")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first = fields
    entry = ProducerEntry(producer_id, epoch)
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp = timestamp
    entry.txn_first_offset = first
    entry.restored = True
    if last_offset >= 0:
        first_sequence = (last_sequence - offset_delta) % _SEQUENCES if last_sequence >= 0 else -1
        first_offset = last_offset - offset_delta
        entry.batches.append(ProducerBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp))
    return entry
