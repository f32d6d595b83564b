"""A process of the workload: one transactional producer, one consumer, random operations, until it is told to stop.

    python -m tests.faults.worker LIBRARY ADDRESS TRANSACTIONAL_ID PROCESS DIRECTORY KEYS STARTED KEYS_PER_SECOND

When it does not know how an operation has ended it says so and ends; another takes its place. Keys come and go: those
that are written now follow from the time since STARTED. The library "idempotent" has no transactions.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from java_driver import JavaDriver
from producers import AiokafkaProducer, ConfluentProducer, JavaProducer, KafkaPythonProducer, TransactionalProducer

from tests.faults.idempotent import IdempotentProducer
from tests.faults.readers import open_reader, place
from tests.faults.records import KEYS_LIVE, TRANSACTION_TIMEOUT_MS, Notes, Polled, encode, entries

POLL_S = 0.1
ABORT_CHANCE = 0.1
ASSIGN_CHANCE = 1 / 16
VALUES_PER_PROCESS = 1_000_000


class NotingProducer(ConfluentProducer):
    """Knows the offsets of what it has sent."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.offsets: dict[str, int] = {}

    def send(self, topic: str, partition: int, value: str) -> None:
        self._client.produce(topic, value.encode(), partition=partition, on_delivery=self._delivered)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.offsets[message.value().decode()] = message.offset()


def open_producer(library: str, address: str, transactional_id: str) -> TransactionalProducer:
    arguments = (address, transactional_id, TRANSACTION_TIMEOUT_MS)
    if library == "java":
        return JavaProducer(JavaDriver(), "worker", *arguments)
    kinds = {"confluent": NotingProducer, "kafka-python": KafkaPythonProducer, "aiokafka": AiokafkaProducer}
    return kinds[library](*arguments)


class Aborted(Exception):
    """The transaction was aborted, and nothing of it happened."""


class Worker:
    def __init__(self, library: str, address: str, transactional_id: str, process: int, notes: Notes) -> None:
        self._rng = random.Random(process)
        self._notes = notes
        self._values = iter(range(process * VALUES_PER_PROCESS, (process + 1) * VALUES_PER_PROCESS))
        self._identity = {"txid": transactional_id, "epoch": time.monotonic_ns(), "lib": library}
        self._group = f"group-{process}"
        self._reader = open_reader(library, address, self._group)
        self._positions: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._idempotent = IdempotentProducer(address) if library == "idempotent" else None
        if self._idempotent is None:
            notes.invoke("init", **self._identity)
            self._producer = open_producer(library, address, transactional_id)
            notes.complete("ok")

    def step(self, live: range) -> None:
        """One operation."""
        if not set(self._positions) <= set(live) or not self._positions or self._rng.random() < ASSIGN_CHANCE:
            self._assign(live)
        elif self._rng.random() < 0.3:
            self._poll()
        elif self._idempotent is not None:
            self._send(live, self._idempotent)
        else:
            self._transact(live)

    def _assign(self, live: range) -> None:
        keys = self._rng.sample(live, self._rng.randint(1, len(live)))
        self._notes.invoke("assign", keys)
        self._positions = {key: self._positions.get(key, 0) for key in keys}
        self._reader.assign(self._positions)
        self._notes.complete("ok", keys)

    def _poll(self) -> None:
        self._notes.invoke("poll")
        polled = self._reader.poll(POLL_S)
        self._go_on(polled)
        self._notes.complete("ok", [entries(polled)])

    def _send(self, live: range, producer: IdempotentProducer) -> None:
        sends = [["s", self._rng.choice(live), None, next(self._values)] for _ in range(self._rng.randint(1, 4))]
        self._notes.invoke("send", sends, lib="idempotent")
        try:
            producer.send(sends)
        except BaseException as error:
            self._notes.complete("info", sends, err=str(error)[:200])
            raise
        self._notes.complete("ok", sends)

    def _transact(self, live: range) -> None:
        done: list[list[Any]] = []
        polled: Polled = []
        plan = [self._plan(live) for _ in range(self._rng.randint(1, 4))]
        # Whoever is killed in the middle has said what may have been written.
        self._notes.invoke("txn", [part for part in plan if part is not None], **self._identity)
        try:
            self._carry_out(plan, done, polled)
        except Aborted:
            self._rewind(polled)
            self._notes.complete("fail", done)
        except BaseException as error:
            self._notes.complete("info", self._with_offsets(done), err=f"{type(error).__name__}: {error}"[:200])
            raise
        else:
            self._go_on(polled)
            self._notes.complete("ok", self._with_offsets(done))

    def _plan(self, live: range) -> list[Any] | None:
        """A send, or None for a poll."""
        return ["s", self._rng.choice(live), None, next(self._values)] if self._rng.random() < 0.5 else None

    def _carry_out(self, plan: list[list[Any] | None], done: list[list[Any]], polled: Polled) -> None:
        self._producer.begin()
        for part in plan:
            self._maybe_abort()
            if part is not None:
                done.append(part)
                self._producer.send(*place(part[1]), encode(part[1], part[3]))
            else:
                found = self._reader.poll(POLL_S)
                done.append(entries(found))
                polled += found
        # A key that was given up and taken again is read anew, but what is committed only goes up.
        ends = {key: end for key, end in _ends(polled).items() if end > self._committed.get(key, 0)}
        for key, end in ends.items():
            self._producer.send_offset(*place(key), end, self._group)
        self._maybe_abort()
        self._producer.commit()
        self._committed |= ends

    def _maybe_abort(self) -> None:
        if self._rng.random() < ABORT_CHANCE:
            self._producer.abort()
            raise Aborted

    def _go_on(self, polled: Polled) -> None:
        self._positions |= _ends(polled)

    def _rewind(self, polled: Polled) -> None:
        for key in _ends(polled):
            self._reader.seek(key, self._positions[key])

    def _with_offsets(self, done: list[list[Any]]) -> list[list[Any]]:
        if isinstance(self._producer, NotingProducer):
            for part in done:
                if part[0] == "s":
                    part[2] = self._producer.offsets.pop(encode(part[1], part[3]), None)
        return done


def _ends(polled: Polled) -> dict[int, int]:
    return {key: offset + 1 for key, offset, _ in polled}


def main(
    library: str,
    address: str,
    transactional_id: str,
    process: str,
    directory: str,
    keys: str,
    started: str,
    keys_per_second: str,
) -> None:
    notes = Notes(Path(directory, f"{process}.jsonl"), int(process))
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    worker = Worker(library, address, transactional_id, int(process), notes)
    while not stopping:
        first = min(int((time.monotonic() - float(started)) * float(keys_per_second)), int(keys) - KEYS_LIVE)
        worker.step(range(first, first + KEYS_LIVE))


if __name__ == "__main__":
    status = 1
    try:
        main(*sys.argv[1:])
        status = 0
    except BaseException:
        traceback.print_exc()
    # A client in trouble would have its process wait for its threads.
    os._exit(status)
