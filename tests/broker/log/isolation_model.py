"""A model of what readers of each isolation level must see, however the log was treated.

It keeps every record that was ever written, and how its transaction ended. Reading is done as Kafka's consumers do
it: fetch after fetch from any offset, each with its own list of aborted transactions.
"""

from __future__ import annotations

from typing import NamedTuple

from compaction_helpers import CompactedLog
from log_helpers import CONFIG

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.retention import retain
from oncelog.broker.log.steps import run
from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.protocol.records.batch import build_batch, iter_headers, read_header
from oncelog.protocol.records.control import ControlType, decode_control_key
from oncelog.protocol.records.record import Record, iter_records

RETENTION_MS = 1000
KEYS = [b"a", b"b", b"c"]
PLAIN = -1
IDEMPOTENT = 1
VERSION_1, VERSION_2 = (2, 3), (4, 5)
"""Producer ids: the first keep their epoch at every end, the second get a new one (KIP-890)."""
PRODUCERS = (PLAIN, IDEMPOTENT, *VERSION_1, *VERSION_2)
RETAINED = CONFIG.replace(segment_bytes=400, retention_ms=RETENTION_MS)
COMPACTED = RETAINED.replace(cleanup_compact=True, min_cleanable_dirty_ratio=0.0, delete_retention_ms=RETENTION_MS)


class Written(NamedTuple):
    offset: int
    key: bytes
    value: bytes


class Txn:
    """In one partition, from its first record to its marker."""

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.marker_offset: int | None = None
        self.committed = False


class IsolationModel:
    def __init__(self, config: LogConfig) -> None:
        self.log = CompactedLog(config)
        self.written: dict[int, Written] = {}
        self.txn_of: dict[int, Txn] = {}
        """By the offset of a record; records outside of transactions have none."""
        self.open: dict[int, Txn] = {}
        self.ended: list[Txn] = []
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.sequences = dict.fromkeys(PRODUCERS, 0)

    # -- what happens ----------------------------------------------------------------------------------------

    def write(self, producer_id: int, keys: list[bytes]) -> None:
        transactional = producer_id in VERSION_1 + VERSION_2
        first = self.log.log.end_offset
        records = [Written(first + i, key, b"%d" % (first + i)) for i, key in enumerate(keys)]
        batch = build_batch(
            [Record(0, self.log.now_ms, record.key, record.value) for record in records],
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id] if producer_id >= 0 else -1,
            base_sequence=self.sequences[producer_id] if producer_id >= 0 else -1,
            transactional=transactional,
        )
        self.log.log.append(batch, read_header(batch), leader_epoch=0, now_ms=self.log.now_ms)
        self.sequences[producer_id] += len(keys)
        self.written |= {record.offset: record for record in records}
        if transactional:
            txn = self.open.setdefault(producer_id, Txn(first))
            self.txn_of |= dict.fromkeys((record.offset for record in records), txn)

    def end(self, producer_id: int, commit: bool) -> None:
        """Also of what has not begun: such a marker ends nothing."""
        if producer_id in VERSION_2:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        marker = self.log.log.append_marker(
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id],
            commit=commit,
            coordinator_epoch=1,
            leader_epoch=0,
            now_ms=self.log.now_ms,
            transaction_version=2 if producer_id in VERSION_2 else 1,
        )
        txn = self.open.pop(producer_id, None)
        if txn is not None:
            txn.marker_offset, txn.committed = marker.first_offset, commit
            self.ended.append(txn)

    def settle(self) -> None:
        self.log.settle()

    def roll(self) -> None:
        self.log.roll()

    def clean(self) -> None:
        if self.log.config.cleanup_compact:
            self.log.clean()

    def retain(self, wait_ms: int) -> None:
        self.log.now_ms += wait_ms
        run(retain(self.log.log, self.log.now_ms))
        self.log.log.maybe_remove_files(self.log.now_ms)

    def delete(self, part: float) -> None:
        """DeleteRecords up to some offset, be it in the middle of a transaction."""
        log = self.log.log
        log.delete_records_before(log.log_start_offset + int((log.high_watermark - log.log_start_offset) * part))

    def restart(self, clean: bool) -> None:
        high_watermark = self.log.log.high_watermark
        if clean:
            self.log.manager.close()
            disk = self.log.disk
            disk.locked.clear()
        else:
            disk = self.log.disk.after_kill()
        again = CompactedLog(self.log.config, disk)
        again.now_ms = self.log.now_ms
        self.log = again
        # All that was written has survived, and a broker alone does not wait for others.
        assert high_watermark <= again.log.end_offset
        again.settle()

    # -- what must be true -----------------------------------------------------------------------------------

    def check(self, start_part: float, size_bytes_max: int) -> None:
        log = self.log.log
        assert log.last_stable_offset == self._stable_offset()
        start = log.log_start_offset + int((log.high_watermark - log.log_start_offset) * start_part)
        expected = {offset: record for offset, record in self.written.items() if offset >= start}
        self._check_seen(self._read(start, log.high_watermark, size_bytes_max, committed=False), expected, False)
        self._check_seen(self._read(start, log.last_stable_offset, size_bytes_max, committed=True), expected, True)

    def _stable_offset(self) -> int:
        log = self.log.log
        unstable = [txn.first_offset for txn in self.open.values()]
        unstable += [txn.first_offset for txn in self.ended if (txn.marker_offset or 0) >= log.high_watermark]
        return min(max(min(unstable, default=log.high_watermark), log.log_start_offset), log.high_watermark)

    def _check_seen(self, seen: list[Written], expected: dict[int, Written], committed: bool) -> None:
        log = self.log.log
        end = log.last_stable_offset if committed else log.high_watermark
        visible = [
            record
            for offset, record in expected.items()
            if offset < end and (not committed or self._is_committed(offset))
        ]
        if not log.config.cleanup_compact:
            assert seen == visible
            return
        assert [record.offset for record in seen] == sorted({record.offset for record in seen})
        assert set(seen) <= set(visible)
        for key in KEYS:
            last = max(
                (record for record in visible if record.key == key and self._is_committed(record.offset)), default=None
            )
            assert last is None or last in seen, f"the last value of {key!r} is lost"

    def _is_committed(self, offset: int) -> bool:
        txn = self.txn_of.get(offset)
        return txn is None or (txn.marker_offset is not None and txn.committed)

    def _read(self, offset: int, end: int, size_bytes_max: int, *, committed: bool) -> list[Written]:
        log = self.log.log
        seen = []
        while offset < end:
            aborted: list[AbortedTxn] = []
            if committed:
                found, aborted = log.locate_committed(offset, size_bytes_max=size_bytes_max, end_offset=end)
            else:
                found = log.locate(offset, size_bytes_max=size_bytes_max, end_offset=end)
            records = found.stored().read() if found.size_bytes else b""
            assert [txn.first_offset for txn in aborted] == sorted(txn.first_offset for txn in aborted)
            aborted_ids: set[int] = set()
            for position, header in iter_headers(records):
                batch = records[position : position + header.size_bytes]
                while aborted and aborted[0].first_offset <= header.last_offset:
                    aborted_ids.add(aborted.pop(0).producer_id)
                if header.is_control:
                    if any(decode_control_key(record.key) == ControlType.ABORT for record in iter_records(batch)):
                        aborted_ids.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborted_ids):
                    seen += [
                        Written(record.offset, bytes(record.key or b""), bytes(record.value or b""))
                        for record in iter_records(batch)
                        if offset <= record.offset < end
                    ]
            assert found.next_offset > offset
            offset = found.next_offset
        return seen
