"""What the files of a broker hold, as rows of plain values for printing.

A row is a dict; its `type` says which fields it has. A file that is damaged ends with a row of type `damage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from oncelog.broker.log import checkpoints, leader_epochs, offset_index, producer_snapshot, time_index, txn_index
from oncelog.broker.log.batch_scan import CorruptBatch
from oncelog.broker.log.file_names import INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX, offset_of_file
from oncelog.inspect.directories import CHECKPOINTS
from oncelog.inspect.log_file import LogFile, StoredBatch
from oncelog.inspect.producers import facts_of
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.control import ControlType, decode_control_key, decode_end_txn_marker
from oncelog.protocol.records.record import Record, iter_records

Row = dict[str, Any]


class UnknownFile(Exception):
    """The name says nothing about what is in the file."""


def dump_file(path: Path, *, records: bool = False) -> Iterator[Row]:
    """Rows for one file, found by its name."""
    if path.suffix == LOG:
        return _dump_log(path, records)
    dump = _DUMPS.get(path.suffix) or _DUMPS.get(path.name)
    if dump is None:
        raise UnknownFile(f"{path} is no file that can be dumped: .log, .index, .timeindex, ...")
    return _guarded(path, dump)


def is_known(path: Path) -> bool:
    return path.is_file() and (path.suffix == LOG or path.suffix in _DUMPS or path.name in _DUMPS)


def _guarded(path: Path, dump: Callable[[Path], Iterator[Row]]) -> Iterator[Row]:
    try:
        yield from dump(path)
    except ValueError as problem:
        yield {"type": "damage", "reason": str(problem)}


# -- segments ------------------------------------------------------------------------------------------------


def _dump_log(path: Path, records: bool) -> Iterator[Row]:
    with LogFile(path) as file:
        try:
            for batch in file.batches():
                yield _batch_row(batch)
                if records or batch.header.is_control:
                    yield from _record_rows(batch, records)
        except CorruptBatch as corrupt:
            is_last = not any(other.name > path.name for other in path.parent.glob("*.log"))
            if is_last and file.is_zero_from(corrupt.position):
                # Room for more, of a running broker or of one that was killed.
                return
            yield {"type": "damage", "position": corrupt.position, "reason": corrupt.reason}


def _batch_row(batch: StoredBatch) -> Row:
    header = batch.header
    codec = header.attributes & 0x07
    row: Row = {
        "type": "batch",
        "position": batch.position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "compression": Compression(codec).name.lower() if codec in list(Compression) else f"unknown ({codec})",
        "timestamp_type": "append" if header.log_append_time else "create",
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon": header.delete_horizon_ms,
        "crc": f"{header.crc:08x}",
        "crc_ok": batch.crc_ok,
    }
    return row


def _record_rows(batch: StoredBatch, all_records: bool) -> Iterator[Row]:
    try:
        for record in iter_records(batch.data):
            if batch.header.is_control and batch.header.producer_id >= 0:
                yield _marker_row(record)
            elif all_records:
                yield {
                    "type": "record",
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": record.key,
                    "value": record.value,
                    "headers": record.headers,
                }
    except ProtocolError as problem:
        yield {"type": "damage", "position": batch.position, "reason": str(problem)}


def _marker_row(record: Record) -> Row:
    kind = ControlType(decode_control_key(record.key)).name.lower()
    return {
        "type": "marker",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "marker": kind,
        "coordinator_epoch": decode_end_txn_marker(record).coordinator_epoch,
    }


# -- indexes -------------------------------------------------------------------------------------------------


def _dump_offset_index(path: Path) -> Iterator[Row]:
    base_offset = _base_offset(path)
    entries = _whole_entries(path, offset_index.ENTRY_SIZE)
    for relative, position in offset_index.ENTRY.iter_unpack(entries):
        yield {"type": "offset_index", "offset": base_offset + relative, "position": position}


def _dump_time_index(path: Path) -> Iterator[Row]:
    base_offset = _base_offset(path)
    for timestamp, relative in time_index.ENTRY.iter_unpack(_whole_entries(path, time_index.ENTRY_SIZE)):
        yield {"type": "time_index", "timestamp": timestamp, "offset": base_offset + relative}


def _whole_entries(path: Path, size_bytes: int) -> bytes:
    """The entries without the zeros behind them that a running Apache Kafka keeps for later ones."""
    data = path.read_bytes()
    if len(data) % size_bytes:
        raise ValueError(f"{len(data)} bytes are not a multiple of {size_bytes}")
    used = len(data.rstrip(b"\0"))
    return data[: -(-used // size_bytes) * size_bytes]


def _dump_txn_index(path: Path) -> Iterator[Row]:
    for txn in txn_index.decode(path.read_bytes()):
        yield {"type": "aborted_txn", **txn._asdict()}


def _base_offset(path: Path) -> int:
    offset = offset_of_file(path.name)
    if offset is None:
        raise ValueError("the name does not begin with the segment's offset of 20 digits")
    return offset


# -- small files ---------------------------------------------------------------------------------------------


def _dump_snapshot(path: Path) -> Iterator[Row]:
    for entry in producer_snapshot.decode(path.read_bytes()):
        yield {"type": "producer", "producer_id": entry.producer_id, **facts_of(entry)._asdict()}


def _dump_leader_epochs(path: Path) -> Iterator[Row]:
    for line in checkpoints.decode_lines(path.read_bytes()):
        epoch, start_offset = line.split()
        yield {"type": "leader_epoch", "epoch": int(epoch), "start_offset": int(start_offset)}


def _dump_checkpoint(path: Path) -> Iterator[Row]:
    for line in checkpoints.decode_lines(path.read_bytes()):
        topic, partition, offset = line.split()
        yield {"type": "checkpoint", "topic": topic, "partition": int(partition), "offset": int(offset)}


def _dump_text(path: Path) -> Iterator[Row]:
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            yield {"type": "text", "line": line}


_DUMPS: dict[str, Callable[[Path], Iterator[Row]]] = {
    INDEX: _dump_offset_index,
    TIME_INDEX: _dump_time_index,
    TXN_INDEX: _dump_txn_index,
    SNAPSHOT: _dump_snapshot,
    leader_epochs.FILE_NAME: _dump_leader_epochs,
    checkpoints.PARTITION_METADATA: _dump_text,
    checkpoints.META_PROPERTIES: _dump_text,
    **dict.fromkeys(CHECKPOINTS, _dump_checkpoint),
}
