"""What the tests of the log share: making batches, opening logs, and a model of what a log must hold."""

from __future__ import annotations

from oncelog.broker.log.disk import Disk
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import ProducerState
from oncelog.broker.log.replication import decode_marker
from oncelog.protocol.records.batch import BatchHeader, build_batch, compute_crc, iter_headers, read_header
from oncelog.protocol.records.control import ControlType
from oncelog.protocol.records.record import Record

TOPIC_ID = bytes([7] * 16)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, transaction_verification=False, file_delete_delay_ms=0)
NOW = 1_000_000


def batch_of(
    count: int = 1,
    *,
    value: bytes = b"v" * 20,
    timestamp: int = NOW,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    key: bytes | None = b"k",
) -> bytearray:
    return build_batch(
        [Record(0, timestamp + i, key, value) for i in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def append(log: PartitionLog, batch: bytearray, *, leader_epoch: int = 0, now_ms: int = NOW, **kwargs):  # type: ignore[no-untyped-def]
    return log.append(batch, read_header(batch), leader_epoch=leader_epoch, now_ms=now_ms, **kwargs)


def open_log(disk: Disk, directory: str = "/t-0", config: LogConfig = CONFIG, **kwargs) -> PartitionLog:  # type: ignore[no-untyped-def]
    kwargs = {"clean": False, "now_ms": NOW, **kwargs}
    return PartitionLog.open(directory, config, disk, topic="t", partition=0, topic_id=TOPIC_ID, **kwargs)


def open_manager(disk: Disk, config: LogConfig = CONFIG, root: str = "/data") -> LogManager:
    manager = LogManager.open(root, lambda topic: config, disk)
    list(manager.recover(NOW))
    return manager


def flush_ahead(log: PartitionLog) -> None:
    """As the broker does: with room for what comes next, and without a ticket where none is needed."""
    if log.unsynced_tail_bytes >= 0:
        log.flush_tail()
        return
    ticket = log.begin_flush(ahead=True)
    if ticket is not None:
        ticket.run()
        log.complete_flush(ticket)


def read_all(log: PartitionLog, start: int | None = None, size_bytes_max: int = 500) -> list[bytes]:
    """Every batch from `start` to the end, read as a consumer would."""
    offset = log.log_start_offset if start is None else start
    batches = []
    while offset < log.end_offset:
        result = log.read(offset, size_bytes_max=size_bytes_max, end_offset=log.end_offset)
        assert result.records, f"nothing at {offset} of [{log.log_start_offset}, {log.end_offset})"
        for position, header in iter_headers(result.records):
            batch = result.records[position : position + header.size_bytes]
            assert compute_crc(memoryview(batch)) == header.crc
            batches.append(bytes(batch))
            assert header.last_offset >= offset
            offset = header.last_offset + 1
        assert offset <= result.next_offset
        offset = max(offset, result.next_offset)
    return batches


class History:
    """Every batch that was ever appended, and the state that follows from those below an offset."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    def add(self, batch: bytes | bytearray) -> None:
        self.batches.append(bytes(batch))

    def headers(self, end_offset: int) -> list[tuple[BatchHeader, bytes]]:
        pairs = [(read_header(batch), batch) for batch in self.batches]
        return [(header, batch) for header, batch in pairs if header.base_offset < end_offset]

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if read_header(batch).base_offset < offset]

    def replay(self, end_offset: int) -> tuple[ProducerState, set[tuple[int, int, int]]]:
        """Producer state and aborted transactions (producer, first, last offset), from scratch."""
        state = ProducerState()
        aborted = set()
        for header, batch in self.headers(end_offset):
            if header.producer_id < 0:
                continue
            if not header.is_control:
                state.apply_data_batch(header, header.base_offset, header.last_offset, header.max_timestamp, 0)
                continue
            marker = decode_marker(batch)
            assert marker is not None
            txn = state.apply_marker(
                header.producer_id,
                header.producer_epoch,
                marker.coordinator_epoch,
                aborted=marker.type == ControlType.ABORT,
                offset=header.base_offset,
                timestamp=header.max_timestamp,
                now_ms=0,
            )
            if txn is not None:
                state.complete(txn)
                if txn.aborted:
                    aborted.add((txn.producer_id, txn.first_offset, txn.last_offset))
        return state, aborted

    def check_state(self, log: PartitionLog) -> None:
        """Producers, open transactions, aborted list and LSO of a log that holds this history."""
        expected, aborted = self.replay(log.end_offset)
        found = log.producers
        assert found.entries.keys() == expected.entries.keys()
        for producer_id, entry in expected.entries.items():
            actual = found.entries[producer_id]
            assert actual.state()[:5] == entry.state()[:5]
            # A snapshot keeps the last batch only, with the timestamp of a marker that came later; the
            # others are what was replayed behind it.
            assert bool(actual.batches) == bool(entry.batches)
            kept = entry.batches[len(entry.batches) - len(actual.batches) :]
            assert [batch[:4] for batch in kept] == [batch[:4] for batch in actual.batches]
        assert found.ongoing == expected.ongoing
        log.update_high_watermark(log.end_offset)
        stable = max(next(iter(expected.ongoing), log.end_offset), log.log_start_offset)
        assert log.last_stable_offset == min(stable, log.end_offset)
        start, end = log.log_start_offset, log.end_offset
        listed = log.aborted_transactions(start, end)
        assert listed == sorted(listed, key=lambda txn: txn.first_offset)
        assert {txn[:3] for txn in listed} == {txn for txn in aborted if txn[2] >= start}
