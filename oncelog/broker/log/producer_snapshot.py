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

from oncelog.broker.log.producer_entry import ProducerBatch, ProducerEntry
from oncelog.protocol.records.checksum import crc32c

VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_SEQUENCES = 2**31


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [_encode_entry(entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def _encode_entry(entry: ProducerEntry) -> bytes:
    last_sequence, last_offset, offset_delta = -1, -1, 0
    if entry.batches:
        batch = entry.batches[-1]
        last_sequence, last_offset = batch.last_sequence, batch.last_offset
        offset_delta = batch.last_offset - batch.first_offset
    return _ENTRY.pack(
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
