"""Checks of a single batch: its header against its records."""

from __future__ import annotations

from oncelog.protocol.errors import KafkaError, ProtocolError
from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.record import iter_records
from oncelog.protocol.records.validation import check_produce_batch


def batch_reason(header: BatchHeader, data: memoryview, compacted: bool) -> str | None:
    """Why a batch whose CRC is right is not one that a broker may have written; None if it is."""
    if header.record_count < 0 or header.record_count > header.last_offset_delta + 1:
        return f"it counts {header.record_count} records for {header.last_offset_delta + 1} offsets"
    if compacted or header.is_control:
        return _sparse_reason(header, data)
    if header.record_count != header.last_offset_delta + 1:
        return f"it counts {header.record_count} records for {header.last_offset_delta + 1} offsets"
    try:
        check_produce_batch(data, compacted=False)
    except KafkaError as refusal:
        return refusal.message
    return None


def _sparse_reason(header: BatchHeader, data: memoryview) -> str | None:
    """The records that compaction left ascend within the offsets of the whole batch."""
    last = header.base_offset - 1
    try:
        for record in iter_records(data):
            if not last < record.offset <= header.last_offset:
                return f"a record has offset {record.offset} after {last}, the batch ends at {header.last_offset}"
            last = record.offset
    except ProtocolError as problem:
        return str(problem)
    return None
