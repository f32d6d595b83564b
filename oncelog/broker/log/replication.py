"""Appending what a leader sent: several batches that keep their offsets and leader epochs.

Every batch is proven by its CRC before it is written, so that damage on one broker stays there. Producer
state follows without checks, since the leader made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.log.log_writer import AppendResult
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records.batch import BatchHeader, compute_crc, iter_headers
from oncelog.protocol.records.control import EndTxnMarker, decode_end_txn_marker
from oncelog.protocol.records.record import iter_records

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog


def append(log: PartitionLog, records: memoryview, now_ms: int) -> AppendResult:
    """A partial batch at the end, as a fetch may have, is left out."""
    batches = [(header, records[at : at + header.size_bytes]) for at, header in iter_headers(records)]
    _check(log, batches)
    first_offset = log.end_offset
    size_bytes = 0
    for header, batch in batches:
        size = len(batch)
        if header.is_control:
            log.prepare_for_abort()
        log.write_batch(
            batch,
            size,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            header.leader_epoch,
            now_ms,
        )
        apply_batch(log, header, batch, now_ms)
        size_bytes += size
    return AppendResult(
        batches[0][0].base_offset if batches else first_offset,
        log.end_offset - 1,
        -1,
        log.log_start_offset,
        False,
        size_bytes,
    )


def _check(log: PartitionLog, batches: list[tuple[BatchHeader, memoryview]]) -> None:
    next_offset = log.end_offset
    for header, batch in batches:
        if compute_crc(batch) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header.base_offset} is damaged")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise ProtocolError(f"batch at offset {header.base_offset} where {next_offset} is next")
        next_offset = header.last_offset + 1


def apply_batch(log: PartitionLog, header: BatchHeader, batch: bytes | memoryview, now_ms: int) -> None:
    """Producer state after a batch that is in the active segment."""
    if header.producer_id < 0:
        return
    if not header.is_control:
        log.producers.apply_data_batch(header, header.base_offset, header.last_offset, header.max_timestamp, now_ms)
        return
    marker = decode_marker(batch)
    if marker is not None:
        log.apply_control(header, marker, now_ms)


def decode_marker(batch: bytes | memoryview) -> EndTxnMarker | None:
    """The marker in a control batch; None if compaction has emptied it."""
    for record in iter_records(batch):
        return decode_end_txn_marker(record)
    return None
