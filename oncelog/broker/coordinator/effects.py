"""What one operation of a coordinator brings about, gathered while it runs and turned into a `Result` at its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.contract import (
    CancelTimer,
    Completion,
    CoordinatorRecord,
    Parked,
    RecordsTooLarge,
    Result,
    SetTimer,
)
from oncelog.broker.coordinator.record_codec import batch_bytes_max, encode_record, record_bytes_max
from oncelog.protocol.records.batch import HEADER_SIZE

BatchLimit = Callable[[], int]
"""How many bytes a batch of the coordinator's log may have at the moment."""


def no_limit() -> int:
    return sys.maxsize


class Effects:
    """`divisible` says that each record stands for itself, so that they need not fit into one batch."""

    __slots__ = ("_completions", "_divisible", "_records", "_size_bytes", "_timers", "batch_bytes_max", "now")

    def __init__(self, now: Now, batch_bytes_max: int, *, divisible: bool = False) -> None:
        self.now = now
        self.batch_bytes_max = batch_bytes_max
        self._divisible = divisible
        self._size_bytes = HEADER_SIZE
        self._records: list[CoordinatorRecord] = []
        self._completions: list[Completion] = []
        self._timers: list[SetTimer | CancelTimer] = []

    def write(self, *records: CoordinatorRecord) -> None:
        """RecordsTooLarge if the log would not take them."""
        for record in records:
            record_bytes = record_bytes_max(encode_record(record))
            size_bytes = (HEADER_SIZE if self._divisible else self._size_bytes) + record_bytes
            if size_bytes > self.batch_bytes_max:
                raise RecordsTooLarge(size_bytes, self.batch_bytes_max)
            self._size_bytes = size_bytes
            self._records.append(record)

    def fits(self, records: Iterable[CoordinatorRecord]) -> bool:
        """Whether `write` would take them together, as the first ones."""
        return batch_bytes_max(map(encode_record, records)) <= self.batch_bytes_max

    def complete(self, token: Hashable, reply: Any) -> None:
        self._completions.append(Completion(token, reply))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        self._timers.append(SetTimer(key, self.now.steady_ms + delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        self._timers.append(CancelTimer(key))

    def result(self, reply: Any = None) -> Result[Any]:
        return Result(
            reply, self._records, completions=self._completions, timers=self._timers, divisible=self._divisible
        )

    def park(self, token: Hashable, displaced: Any) -> Result[Any]:
        """The request waits, unless the operation that it began has completed it already. An earlier request
        of the same token is then still parked, and gets what it would have got anyway."""
        for index, completion in enumerate(self._completions):
            if completion.token == token:
                self._completions[index] = Completion(token, displaced)
                return self.result(completion.reply)
        return self.result(Parked(token, displaced))
