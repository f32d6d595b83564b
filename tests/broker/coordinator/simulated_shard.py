"""A shard without files and without an event loop: it carries out results at once, and time passes on demand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.contract import (
    CancelTimer,
    Coordinator,
    CoordinatorRecord,
    Parked,
    ReplayContext,
    Result,
)
from oncelog.broker.coordinator.effects import BatchLimit
from oncelog.broker.coordinator.record_codec import batch_bytes_max, divide_records, encode_record

WALL_MS = 1_700_000_000_000
STEADY_MS = 5_000
"""Far from each other, so that a test fails where one is taken for the other."""


class Waiting:
    """A request that is parked; it has its reply once somebody completes it."""

    def __init__(self) -> None:
        self.reply: Any = None

    @property
    def done(self) -> bool:
        return self.reply is not None


class SimulatedShard:
    def __init__(self, make_coordinator: Callable[[BatchLimit], Coordinator]) -> None:
        self._make_coordinator = make_coordinator
        self.wall_ms = WALL_MS
        self.steady_ms = STEADY_MS
        self.log: list[tuple[bytes, bytes | None, int]] = []
        """Key, value, and the producer id of the transaction, or -1. A marker has no key but its outcome."""
        self.newest_wall_ms = -1
        """The largest timestamp in the log."""
        self.markers: dict[int, tuple[int, bool]] = {}
        """Producer id and outcome by the offset of the marker."""
        self.appended: list[CoordinatorRecord] = []
        """By the last operation."""
        self.timers: dict[Hashable, int] = {}
        self.parked: dict[Hashable, Waiting] = {}
        self.batch_bytes_max = sys.maxsize
        self.coordinator: Any = make_coordinator(self._limit)
        self._carry_out(self.coordinator.on_loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.steady_ms)

    def run(self, operation: Callable[[Any, Now], Result[Any]], producer_id: int = -1) -> Any:
        """The reply, or a `Waiting`. KafkaError where the coordinator refuses."""
        self.appended = []
        return self._carry_out(operation(self.coordinator, self.now), producer_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.markers[len(self.log)] = (producer_id, committed)
        self.log.append((b"", None, producer_id))
        self._carry_out(self.coordinator.replay_marker(producer_id, 0, committed))

    def advance(self, duration_ms: int) -> None:
        """Let time pass; timers fire at their deadlines, in order. `appended` has the records of all."""
        appended: list[CoordinatorRecord] = []
        end_ms = self.steady_ms + duration_ms
        while self.timers:
            if min(self.timers.values()) > end_ms:
                break
            self.advance_to_next_timer()
            appended += self.appended
        self._pass_time(end_ms - self.steady_ms)
        self.appended = appended

    def advance_to_next_timer(self) -> None:
        """Let one timer fire."""
        self.appended = []
        key, deadline_ms = min(self.timers.items(), key=lambda timer: timer[1])
        self._pass_time(deadline_ms - self.steady_ms)
        del self.timers[key]
        self._carry_out(self.coordinator.on_timer(key, self.now))

    def set_wall_clock(self, change_ms: int) -> None:
        """Somebody corrects the system's clock, or the machine was suspended: no time passes for the broker."""
        self.wall_ms += change_ms

    def restart(self) -> None:
        """As after a crash: only the log is left."""
        self.timers.clear()
        self.parked.clear()
        self.coordinator = self.rebuilt()
        self._carry_out(self.coordinator.on_loaded(self.now))

    def rebuilt(self) -> Any:
        """A coordinator that has read the log and not begun to serve."""
        coordinator = self._make_coordinator(self._limit)
        now = Now(min(self.wall_ms, self.newest_wall_ms), self.steady_ms)
        for offset, (key, value, producer_id) in enumerate(self.log):
            if offset in self.markers:
                coordinator.replay_marker(producer_id, 0, self.markers[offset][1])
            else:
                record = coordinator.decode(key, value)
                assert record is not None
                coordinator.replay(record, ReplayContext(offset, now, producer_id, 0))
        return coordinator

    def _limit(self) -> int:
        return self.batch_bytes_max

    def _pass_time(self, duration_ms: int) -> None:
        self.steady_ms += max(duration_ms, 0)
        self.wall_ms += max(duration_ms, 0)

    def _carry_out(self, result: Result[Any], producer_id: int = -1) -> Any:
        records = [encode_record(record) for record in result.records]
        for batch in divide_records(records, self.batch_bytes_max) if result.divisible else [records]:
            assert not batch or batch_bytes_max(batch) <= self.batch_bytes_max, "the coordinator lets it pass"
        for record in result.records:
            context = ReplayContext(len(self.log), self.now, producer_id, 0)
            self.log.append((*encode_record(record), producer_id))
            self.newest_wall_ms = max(self.newest_wall_ms, self.wall_ms)
            self.appended.append(record)
            self.coordinator.replay(record, context)
        for timer in result.timers:
            if isinstance(timer, CancelTimer):
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = timer.deadline_ms
        for completion in result.completions:
            if completion.token in self.parked:
                self.parked.pop(completion.token).reply = completion.reply
        if isinstance(result.reply, Parked):
            displaced = self.parked.pop(result.reply.token, None)
            if displaced is not None:
                displaced.reply = result.reply.displaced
            waiting = self.parked[result.reply.token] = Waiting()
            return waiting
        return result.reply
