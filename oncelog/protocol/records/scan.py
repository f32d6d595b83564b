"""Scans the plain records of a batch and says whether a broker may store them: the Python version of `RecordScanner`.

Both versions take the same arguments, accept the same batches and give the same verdict on the others; the tests run
over both. This one is used where the extension could not be built.
"""

from __future__ import annotations

from typing import Final

from oncelog.protocol.primitives import Buffer
from oncelog.protocol.records.parser import RecordParser
from oncelog.protocol.records.verdicts import NULL_KEY, TIMESTAMP_OUT_OF_RANGE

VIOLATIONS_MAX: Final = 1000


class RecordScanner:
    """Feed it the records of one batch in windows, then ask for the verdict. It keeps nothing of a window."""

    def __init__(
        self, record_count: int, base_timestamp: int, compacted: bool, timestamp_min: int, timestamp_max: int, /
    ) -> None:
        self._parser = RecordParser(record_count, base_timestamp, keep=False)
        self._records = self._parser.parse()
        self._compacted = compacted
        self._timestamp_min = timestamp_min
        self._timestamp_max = timestamp_max
        self._newest = -1
        self._violations: list[tuple[int, int]] = []
        self._advance(None)

    def feed(self, window: Buffer, /) -> None:
        self._parser.fed += len(window)
        self._advance(window)

    def finish(self) -> tuple[int, int, int, list[tuple[int, int]]]:
        """Return (verdict, index of the record that it is about, newest timestamp, violations).

        The verdict is on the first record that is malformed. Violations are well-formed records that their topic does
        not take, the first thousand, each as (index, verdict). The newest timestamp is at least -1. A timestamp of -1
        means that the record has none, and is not held against the two bounds.
        """
        self._parser.ended = True
        self._advance(None)
        index = min(self._parser.index, max(self._parser.record_count - 1, 0))
        return self._parser.verdict(), index, self._newest, self._violations

    def _advance(self, window: Buffer | None) -> None:
        """Scan the records that have come."""
        records, timestamp_min, timestamp_max = self._records, self._timestamp_min, self._timestamp_max
        newest = self._newest
        try:
            record = records.send(window)
            while record is not None:
                _, timestamp, _, key, _, _ = record
                if timestamp > newest:
                    newest = timestamp
                if key is None or not timestamp_min <= timestamp <= timestamp_max:
                    self._note_violation(timestamp, key is None)
                record = next(records)
        except StopIteration:
            pass
        self._newest = newest

    def _note_violation(self, timestamp: int, is_key_null: bool) -> None:
        if len(self._violations) < VIOLATIONS_MAX:
            if is_key_null and self._compacted:
                self._violations.append((self._parser.index, NULL_KEY))
            elif not self._timestamp_min <= timestamp <= self._timestamp_max and timestamp != -1:
                self._violations.append((self._parser.index, TIMESTAMP_OUT_OF_RANGE))
