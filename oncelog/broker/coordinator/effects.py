"""What one operation of a coordinator brings about, gathered while it runs and turned into a `Result` at its end."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from oncelog.broker.coordinator.contract import (
    CancelTimer,
    Completion,
    CoordinatorRecord,
    Parked,
    Result,
    SetTimer,
)


class Effects:
    __slots__ = ("_completions", "_records", "_timers", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._records: list[CoordinatorRecord] = []
        self._completions: list[Completion] = []
        self._timers: list[SetTimer | CancelTimer] = []

    def write(self, *records: CoordinatorRecord) -> None:
        self._records.extend(records)

    def complete(self, token: Hashable, reply: Any) -> None:
        self._completions.append(Completion(token, reply))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        self._timers.append(SetTimer(key, self.now_ms + delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        self._timers.append(CancelTimer(key))

    def result(self, reply: Any = None, *, divisible: bool = False) -> Result[Any]:
        return Result(reply, self._records, completions=self._completions, timers=self._timers, divisible=divisible)

    def park(self, token: Hashable, displaced: Any) -> Result[Any]:
        """The request waits, unless the operation that it began has completed it already. An earlier request
        of the same token is then still parked, and gets what it would have got anyway."""
        for index, completion in enumerate(self._completions):
            if completion.token == token:
                self._completions[index] = Completion(token, displaced)
                return self.result(completion.reply)
        return self.result(Parked(token, displaced))
