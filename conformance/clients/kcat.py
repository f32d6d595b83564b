"""kcat, each call a process, apart from consumers, which last as long as their process.

kcat makes no topics: the harness prepares them by the wire. It can neither set timestamps nor tell the offset of what
it produced.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import groupby
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any

from conformance.client import (
    OPERATION_TIMEOUT_S,
    REQUEST_SIZE_BYTES_MAX,
    ClientError,
    UnsupportedError,
    show,
)
from conformance.preparation import create_topic, wait_for_end
from conformance.reference import processes
from conformance.scenarios.run import find_offset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.client import Json, Record, TransactionalProducer

_SPECS = {"earliest": "-2", "latest": "-1"}
_ERROR = re.compile(r"(?:Broker|Local): [^:\n(%]+")
_ASSIGNED = re.compile(r"rebalanced .*?: (assigned|revoked): (.*)")
_VERSION = re.compile(r"^Version (\S+).*librdkafka (\S+)", re.MULTILINE)


def _program() -> str | None:
    # Debian called it kafkacat before version 1.7.
    return shutil.which("kcat") or shutil.which("kafkacat")


def missing() -> str | None:
    return None if _program() else "kcat is missing (Debian: apt-get install kcat)"


def version() -> str:
    program = _program()
    if program is None:
        return ""
    done = subprocess.run([program, "-V"], capture_output=True, text=True, check=False)
    found = _VERSION.search(done.stdout + done.stderr)
    return f"{found[1]}, librdkafka {found[2]}" if found else ""


class KcatClient:
    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = bootstrap_servers
        self._common = [_program() or "kcat", "-b", bootstrap_servers, "-m", f"{OPERATION_TIMEOUT_S:.0f}"]

    def prepare_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        create_topic(self._bootstrap, name, partitions=partitions, configs=configs)

    def create_topic(self, name: str, **_: object) -> Json:
        raise UnsupportedError("kcat cannot create topics")

    def delete_topic(self, name: str) -> Json:
        raise UnsupportedError("kcat cannot delete topics")

    def create_partitions(self, name: str, total: int) -> Json:
        raise UnsupportedError("kcat cannot create partitions")

    def describe_topic(self, name: str) -> list[Json]:
        told = json.loads(self._run("-L", "-J", "-t", name))
        (topic,) = told["topics"]
        if "error" in topic:
            raise ClientError(topic["error"])
        return [
            {"partition": item["partition"], "replicas": len(item["replicas"]), "isr": len(item["isrs"])}
            for item in sorted(topic["partitions"], key=lambda item: int(item["partition"]))
        ]

    def describe_configs(self, topic: str) -> dict[str, Json]:
        raise UnsupportedError("kcat has no calls for configs")

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> Json:
        raise UnsupportedError("kcat has no calls for configs")

    def produce(self, topic: str, records: Sequence[Record], *, codec: str, acks: str) -> Json:
        if codec == "zstd":
            raise UnsupportedError("zstd, which is no choice of its option -z")
        size = f"message.max.bytes={REQUEST_SIZE_BYTES_MAX}"
        settings = (f"acks={acks}", size, "batch.num.messages=1")
        where = ["-P", "-t", topic, "-p", "0", "-z", codec, *(part for item in settings for part in ("-X", item))]
        for (key, headers, filled), group in groupby(records, _kind):
            alike = list(group)
            if acks == "0":
                end = find_offset(self, topic, "latest") + len(alike)
            options = [option for name, value in headers for option in ("-H", f"{name}={_text(value)}")]
            if filled:
                options += ["-k", _text(key)] if key is not None else []
                self._produce_files(where + options, alike)
            else:
                self._produce_hollow(where + options, alike)
            if acks == "0":
                # Nothing is acked, and the next process might overtake this one.
                wait_for_end(self._bootstrap, topic, end)
        return None

    def _produce_files(self, options: Sequence[str], records: Sequence[Record]) -> None:
        """A file is a record; kcat would look for the end of a large one on its input again and again."""
        with TemporaryDirectory() as directory:
            paths = [Path(directory, str(index)) for index in range(len(records))]
            for path, record in zip(paths, records, strict=True):
                path.write_bytes(record.value or b"")
            self._run(*options, *map(str, paths))

    def _produce_hollow(self, options: Sequence[str], records: Sequence[Record]) -> None:
        """A line with nothing behind its key; kcat sends it as it is, or as null."""
        for record in records:
            null = ("-Z",) if record.value is None else ()
            self._run(*options, *null, "-K", "\x02", "-D", "\x01", stdin=(record.key or b"") + b"\x02\x01")

    def consume(self, topic: str, count: int, *, fetch_size_bytes: int | None = None) -> list[Json]:
        limit = () if fetch_size_bytes is None else ("-X", f"fetch.message.max.bytes={fetch_size_bytes}")
        text = self._run("-C", "-t", topic, "-p", "0", "-o", "0", "-c", str(count), "-J", *limit)
        return [_observe(json.loads(line)) for line in text.splitlines()]

    def list_offset(self, topic: str, partition: int, spec: str) -> Json:
        if not spec.isdigit() and spec not in _SPECS:
            raise UnsupportedError(spec)
        if spec.isdigit() and int(spec) > 0:
            raise UnsupportedError("it sets no timestamps, so that the answer is up to the clock")
        return self._run("-Q", "-t", f"{topic}:{partition}:{_SPECS.get(spec, spec)}").strip()

    def open_consumer(
        self,
        topic: str,
        group: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        isolation: str = "read_uncommitted",
    ) -> KcatConsumer:
        if protocol != "classic":
            raise UnsupportedError(f"group protocol {protocol}")
        settings = {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "isolation.level": isolation,
            "heartbeat.interval.ms": "500",
        }
        settings |= {} if instance is None else {"group.instance.id": instance}
        options = [option for name, value in settings.items() for option in ("-X", f"{name}={value}")]
        return KcatConsumer([*self._common, "-E", "-u", "-J", *options, "-G", group, topic])

    def open_producer(self, transactional_id: str | None, *, timeout_ms: int = 60_000) -> TransactionalProducer:
        raise UnsupportedError("kcat has no producer that goes on: it sends what it read when its input ends")

    def close(self) -> None:
        """Nothing stays open between calls."""

    def _run(self, *args: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            [*self._common, *args], input=stdin, capture_output=True, timeout=2 * OPERATION_TIMEOUT_S, check=False
        )
        told = done.stderr.decode(errors="replace")
        if done.returncode != 0 or "Delivery failed" in told:
            raise ClientError(_named(told) or f"exit code {done.returncode}")
        return done.stdout.decode("latin-1")


class KcatConsumer:
    """A process whose lines two threads read: records from stdout, what the group gives from stderr."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._records: Queue[str] = Queue()
        self._assigned = 0
        self._readers = [Thread(target=read, daemon=True) for read in (self._read_records, self._read_messages)]
        for reader in self._readers:
            reader.start()

    def _read_records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._records.put(line)

    def _read_messages(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if (found := _ASSIGNED.search(line)) is not None:
                self._assigned = found[2].count("[") if found[1] == "assigned" else 0

    def poll(self, seconds: float) -> list[Json]:
        try:
            told = json.loads(self._records.get(timeout=seconds))
        except Empty:
            return []
        return [{"partition": told["partition"], "offset": told["offset"], "value": told["payload"]}]

    def assigned(self) -> int:
        return self._assigned

    def commit(self) -> Json:
        raise UnsupportedError("committing when told to")

    def committed(self, partition: int) -> Json:
        raise UnsupportedError("telling what is committed")

    def close(self) -> None:
        processes.stop(self._process, OPERATION_TIMEOUT_S)
        for reader in self._readers:
            reader.join()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()


def _kind(record: Record) -> tuple[bytes | None, tuple[tuple[str, bytes | None], ...], bool]:
    """Records of one kind can come from one process."""
    return record.key, record.headers, bool(record.value)


def _named(told: str) -> str | None:
    found = _ERROR.search(told)
    return found[0].strip() if found else None


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("ascii")


def _observe(told: dict[str, Any]) -> Json:
    payload = told["payload"]
    return {
        "offset": told["offset"],
        "leader_epoch": told.get("leader_epoch", "none"),
        "timestamp": told["tstype"],
        "key": told["key"],
        "value": show(None if payload is None else payload.encode("latin-1")),
        "headers": told.get("headers", []),
    }
