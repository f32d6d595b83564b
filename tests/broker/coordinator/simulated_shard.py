"""A shard without files and without an event loop: it carries out results at once, and time passes on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from oncelog.broker.coordinator.contract import (
    CancelTimer,
    Coordinator,
    CoordinatorRecord,
    Parked,
    ReplayContext,
    Result,
)
from oncelog.broker.coordinator.record_codec import encode_record

NOW = 1_000_000


class Waiting:
    """A request that is parked; it has its reply once somebody completes it."""

    def __init__(self) -> None:
        self.reply: Any = None

    @property
    def done(self) -> bool:
        return self.reply is not None


class SimulatedShard:
    def __init__(self, make_coordinator: Callable[[], Coordinator]) -> None:
        self._make_coordinator = make_coordinator
        self.now_ms = NOW
        self.log: list[tuple[bytes, bytes | None, int]] = []
        """Key, value, and the producer id of the transaction, or -1. A marker has no key but its outcome."""
        self.markers: dict[int, tuple[int, bool]] = {}
        """Producer id and outcome by the offset of the marker."""
        self.appended: list[CoordinatorRecord] = []
        """By the last operation."""
        self.timers: dict[Hashable, int] = {}
        self.parked: dict[Hashable, Waiting] = {}
        self.coordinator: Any = make_coordinator()
        self._carry_out(self.coordinator.on_loaded(self.now_ms))

    def run(self, operation: Callable[[Any, int], Result[Any]], producer_id: int = -1) -> Any:
        """The reply, or a `Waiting`. KafkaError where the coordinator refuses."""
        self.appended = []
        return self._carry_out(operation(self.coordinator, self.now_ms), producer_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.markers[len(self.log)] = (producer_id, committed)
        self.log.append((b"", None, producer_id))
        self._carry_out(self.coordinator.replay_marker(producer_id, 0, committed))

    def advance(self, duration_ms: int) -> None:
        """Let time pass; timers fire at their deadlines, in order. `appended` has the records of all."""
        self.appended = []
        end_ms = self.now_ms + duration_ms
        while self.timers:
            key, deadline_ms = min(self.timers.items(), key=lambda timer: timer[1])
            if deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            del self.timers[key]
            self._carry_out(self.coordinator.on_timer(key, self.now_ms))
        self.now_ms = end_ms

    def restart(self) -> None:
        """As after a crash: only the log is left."""
        self.timers.clear()
        self.parked.clear()
        self.coordinator = self.rebuilt()
        self._carry_out(self.coordinator.on_loaded(self.now_ms))

    def rebuilt(self) -> Any:
        """A coordinator that has read the log and not begun to serve."""
        coordinator = self._make_coordinator()
        for offset, (key, value, producer_id) in enumerate(self.log):
            if offset in self.markers:
                coordinator.replay_marker(producer_id, 0, self.markers[offset][1])
            else:
                record = coordinator.decode(key, value)
                assert record is not None
                coordinator.replay(record, ReplayContext(offset, producer_id, 0))
        return coordinator

    def _carry_out(self, result: Result[Any], producer_id: int = -1) -> Any:
        for record in result.records:
            context = ReplayContext(len(self.log), producer_id, 0)
            self.log.append((*encode_record(record), producer_id))
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
