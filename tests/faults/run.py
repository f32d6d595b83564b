"""A run of the workload: processes of mixed clients on one broker, and what happens to them and to it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from oncelog.testing import Broker
from tests.faults.idempotent import IdempotentProducer
from tests.faults.readers import READERS, key_of, place
from tests.faults.records import KEYS_LIVE, TRANSACTION_TIMEOUT_MS, Notes, merge

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 120.0
REQUEST_TIMEOUT_S = 10.0
KEYS_PER_SECOND = 0.2
FAULT_INTERVAL_S = 2.0
FAULT_KINDS = 4
STUCK_S = 25.0
OWN, ENDS = 0, 1
"""Numbers of the processes that are no workers."""
SHARED = "shared"
"""A transactional id that two workers take from each other all the time."""


class Slot:
    """The place of a worker; when it has ended, another one comes."""

    def __init__(self, library: str, transactional_id: str) -> None:
        self.library = library
        self.transactional_id = transactional_id
        self.process: subprocess.Popen[bytes] | None = None
        self.number: str | None = None
        self.started = 0.0


class Run:
    def __init__(self, broker: Broker, directory: Path, libraries: list[str], seconds: float, seed: int) -> None:
        self._broker = broker
        self._directory = directory
        self._rng = random.Random(seed)
        self._seconds = seconds
        self._started = time.monotonic()
        self._slots = [Slot(library, f"worker-{number}") for number, library in enumerate(libraries)]
        self._slots += [Slot("confluent", SHARED), Slot("aiokafka", SHARED)]
        self._next_process = 2
        self._notes = Notes(directory / "own.jsonl", OWN)
        self._ends = Notes(directory / "ends.jsonl", ENDS)
        self._keys = int(seconds * KEYS_PER_SECOND) + 2 * KEYS_LIVE
        settings = {"bootstrap.servers": broker.bootstrap_servers, "metadata.recovery.strategy": "none", "log_level": 0}
        self._admin = AdminClient(settings)
        self._log = (directory / "workers.log").open("ab")
        self._deck: list[Callable[[], None]] = []
        self.faults: Counter[str] = Counter()
        self.stuck: Counter[str] = Counter()

    def carry_out(self, progress: Callable[[str], None]) -> list[str]:
        """The whole of it; the lines of the history."""
        self._create_topics()
        due = 0.0
        try:
            self._wait_until_all_work()
            while (now := time.monotonic()) < self._started + self._seconds or len(self.faults) < FAULT_KINDS:
                self._kill_the_stuck()
                self._keep_up()
                if now >= due:
                    self._disturb()
                    self._note_ends()
                    self._note_committed()
                    due = time.monotonic() + self._rng.expovariate(1 / FAULT_INTERVAL_S)
                progress(f"{now - self._started:.0f} of {self._seconds:.0f} s, faults: {dict(self.faults)}")
                time.sleep(0.05)
            self._stop_workers()
        finally:
            for slot in self._slots:
                if slot.process is not None:
                    slot.process.kill()
                    slot.process.wait()
        self._write_last_records()
        self._wait_until_nothing_is_open()
        self._read_everything()
        return merge(self._directory)

    def close(self) -> None:
        for file in (self._notes, self._ends, self._log):
            file.close()

    def _create_topics(self) -> None:
        topics = sorted({place(key)[0] for key in range(self._keys)})
        for created in self._admin.create_topics([NewTopic(topic, 2, 1) for topic in topics]).values():
            created.result(PATIENCE_S)

    def _wait_until_all_work(self) -> None:
        """Each has completed what it is there for."""
        deadline = time.monotonic() + PATIENCE_S
        waiting = list(self._slots)
        while waiting:
            assert time.monotonic() < deadline, f"no operation of {[slot.library for slot in waiting]} was completed"
            self._keep_up()
            waiting = [slot for slot in waiting if not self._has_worked(slot)]
            time.sleep(0.05)

    def _has_worked(self, slot: Slot) -> bool:
        path = self._directory / f"{slot.number}.jsonl"
        what = "send" if slot.library == "idempotent" else "txn"
        return path.exists() and f'"type": "ok", "f": "{what}"' in path.read_text()

    def _keep_up(self) -> None:
        for slot in self._slots:
            if slot.process is None or slot.process.poll() is not None:
                arguments = (slot.library, self._broker.bootstrap_servers, slot.transactional_id)
                slot.number = self._take_number()
                slot.started = time.time()
                keys = (str(self._keys), str(self._started), str(KEYS_PER_SECOND))
                slot.process = self._spawn("worker", *arguments, slot.number, str(self._directory), *keys)

    def _take_number(self) -> str:
        self._next_process += 1
        return str(self._next_process)

    def _spawn(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests/transactions")])
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", f"tests.faults.{module}", *arguments],
            stdout=self._log,
            stderr=self._log,
            env=os.environ | {"PYTHONPATH": path},
        )

    def _disturb(self) -> None:
        if not self._deck:
            self._deck = [self._pause_worker, self._kill_worker, self._pause_broker, self._kill_broker]
            if self.faults:
                self._rng.shuffle(self._deck)
        fault = self._deck.pop()
        self.faults[fault.__name__.removeprefix("_").replace("_", " ")] += 1
        self._notes.invoke("nemesis", fault.__name__)
        fault()
        self._notes.complete("ok", fault.__name__)

    def _kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _pause_broker(self) -> None:
        _pause(self._broker.pid, self._rng.uniform(0.2, 3))

    def _kill_worker(self) -> None:
        process = self._rng.choice(self._slots).process
        assert process is not None
        process.kill()

    def _pause_worker(self) -> None:
        process = self._rng.choice(self._slots).process
        assert process is not None
        if process.poll() is None:
            _pause(process.pid, self._rng.uniform(0.2, 3))

    def _note_ends(self) -> None:
        self._ends.invoke("ends")
        try:
            self._ends.complete("ok", self._list_ends())
        except KafkaException:
            self._ends.complete("info")

    def _note_committed(self) -> None:
        """What the workers' transactions have committed for their groups."""
        for group in [f"group-{slot.number}" for slot in self._slots if slot.number is not None]:
            self._ends.invoke("committed")
            try:
                asked = self._admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_TIMEOUT_S
                )
                found = asked[group].result().topic_partitions
            except KafkaException:
                self._ends.complete("info")
                continue
            offsets = {str(key_of(each.topic, each.partition)): each.offset for each in found}
            self._ends.complete("ok", {"group": group, "offsets": offsets})

    def _list_ends(self) -> dict[str, list[int]]:
        """For each key the last stable offset, then the high watermark."""
        found: dict[str, list[int]] = {}
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            wanted = {TopicPartition(*place(key)): OffsetSpec.latest() for key in range(self._keys)}
            answers = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S)
            by_place = {(asked.topic, asked.partition): answer for asked, answer in answers.items()}
            for key in range(self._keys):
                found.setdefault(str(key), []).append(by_place[place(key)].result().offset)
        return found

    def _stop_workers(self) -> None:
        for slot in self._slots:
            if slot.process is not None:
                slot.process.terminate()
        deadline = time.monotonic() + STUCK_S
        for slot in self._slots:
            if slot.process is not None:
                with suppress(subprocess.TimeoutExpired):
                    slot.process.wait(max(0.1, deadline - time.monotonic()))
                    continue
                self.stuck[slot.library] += 1

    def _kill_the_stuck(self) -> None:
        """Some clients lose a request while the broker is away, and wait for ever: docs/clients.md."""
        for slot in self._slots:
            path = self._directory / f"{slot.number}.jsonl"
            since = path.stat().st_mtime if path.exists() else slot.started
            if slot.process is not None and time.time() - max(since, slot.started) > STUCK_S:
                self.stuck[slot.library] += 1
                slot.process.kill()
                slot.process.wait()

    def _write_last_records(self) -> None:
        sends = [["s", key, None, key] for key in range(self._keys)]
        self._notes.invoke("send", sends)
        IdempotentProducer(self._broker.bootstrap_servers).send(sends)
        self._notes.complete("ok", sends)

    def _wait_until_nothing_is_open(self) -> None:
        """A transaction without its producer ends with its timeout."""
        deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000 + 10
        while any(stable < high for stable, high in self._list_ends().values()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self._ends.invoke("ends", final=True)
        self._ends.complete("ok", self._list_ends())

    def _read_everything(self) -> None:
        for library in READERS:
            arguments = (library, self._broker.bootstrap_servers, self._take_number())
            reader = self._spawn("final", *arguments, str(self._directory), str(self._keys))
            try:
                assert reader.wait(PATIENCE_S) == 0, f"{library} could not read everything"
            finally:
                reader.kill()
                reader.wait()


def _pause(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)
