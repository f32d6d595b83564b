"""Which batches of a fetch a reader gets.

Markers of transactions are never delivered. With read_committed, the broker names the aborted transactions of the
range that it sends, and each is in force from its first offset up to its abort marker (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.protocol.messages.fetch import PartitionData
from oncelog.protocol.primitives import StoredBytes
from oncelog.protocol.records.batch import BatchHeader, iter_headers
from oncelog.protocol.records.control import ControlType, decode_control_key
from oncelog.protocol.records.record import iter_records


def iter_batches(data: PartitionData) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
    """Every whole batch, and whether a reader gets its records."""
    assert not isinstance(data.records, StoredBytes), "a decoder gives what came"
    view = memoryview(data.records or b"")
    aborts = sorted(data.aborted_transactions or [], key=lambda txn: txn.first_offset, reverse=True)
    aborting: set[int] = set()
    for position, header in iter_headers(view):
        batch = view[position : position + header.size_bytes]
        while aborts and aborts[-1].first_offset <= header.last_offset:
            aborting.add(aborts.pop().producer_id)
        if header.is_control and _is_abort(batch):
            aborting.discard(header.producer_id)
        aborted = header.is_transactional and header.producer_id in aborting
        yield header, batch, not header.is_control and not aborted


def _is_abort(batch: memoryview) -> bool:
    return any(decode_control_key(record.key) == ControlType.ABORT for record in iter_records(batch))
