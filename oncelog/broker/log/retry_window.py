"""Recalling a producer's last batches after a restart.

A snapshot keeps one batch per producer, the last. A client may have had five in flight when the broker was
stopped and sends them all again. When one of them does not fit, the others are looked up in the log itself,
so that they are answered with their offsets instead of an error. Apache Kafka does not do this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING

from oncelog.broker.log.batch_scan import CorruptBatch, iter_headers
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.producer_entry import BATCHES_MAX, ProducerBatch, ProducerEntry
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.log.log_writer import LogWriter

_BYTES_MAX = 8 * 1024 * 1024
"""How far back to look: batches that were in flight together lie close together."""


def recall(log: LogWriter, entry: ProducerEntry) -> None:
    """Adds the batches before the one that the snapshot had; does nothing the second time.

    If they cannot be read, nothing is changed, so that the client may send its batch once more.
    """
    try:
        found = _batches_before(log, entry) if entry.batches else ()
    except CorruptBatch as error:
        raise StorageError(f"{log.directory} is damaged {error}") from error
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error
    entry.restored = False
    entry.batches[:0] = found


def _batches_before(log: LogWriter, entry: ProducerEntry) -> Collection[ProducerBatch]:
    first_offset = entry.batches[0].first_offset
    wanted = BATCHES_MAX - len(entry.batches)
    found: deque[ProducerBatch] = deque()
    budget = _BYTES_MAX
    index = log.segments.floor_index(first_offset)
    while index >= 0 and budget > 0 and len(found) < wanted:
        segment = log.segments.items[index]
        stop = segment.size_bytes
        if segment.base_offset <= first_offset:
            located = segment.find(first_offset)
            stop = located[0] if located else stop
        start = segment.offset_index.floor_position(max(0, stop - budget))
        older: deque[ProducerBatch] = deque(maxlen=wanted)
        for _, header in iter_headers(log.disk, segment.file(), start, stop):
            if (
                header.producer_id == entry.producer_id
                and header.producer_epoch == entry.epoch
                and not header.is_control
                and header.base_sequence >= 0
            ):
                older.append(
                    ProducerBatch(
                        header.base_sequence,
                        header.last_sequence,
                        header.base_offset,
                        header.last_offset,
                        header.max_timestamp,
                    )
                )
        while older and len(found) < wanted:
            found.appendleft(older.pop())
        budget -= stop - start
        index -= 1
    return found
