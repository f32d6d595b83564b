"""Kafka's own command-line tools, one call after the other in a JVM that stays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conformance.client import (
    OPERATION_TIMEOUT_S,
    REQUEST_SIZE_BYTES_MAX,
    ClientError,
    Json,
    Record,
    UnsupportedError,
    show,
    show_headers,
)
from conformance.reference.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.client import GroupConsumer, TransactionalProducer

_NULL = "<null>"
_EXCEPTION = re.compile(r"\b(?:[a-z]\w*\.)+(\w+(?:Exception|Error))\b")
_CONFIG_LINE = re.compile(r"^  (?P<name>[\w.]+)=(?P<rest>.*)$", re.MULTILINE)
_PARTITION_LINE = re.compile(r"Partition: (\d+)\t.*Replicas: (\S*)\tIsr: (\S*)")


class JavaToolsClient:
    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = ("--bootstrap-server", bootstrap_servers)
        self._toolbox = Toolbox()

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> Json:
        if validate_only:
            raise UnsupportedError("validate_only")
        sizes = (f"--partitions={partitions}", f"--replication-factor={replication_factor}")
        options = [f"--config={key}={value}" for key, value in (configs or {}).items()]
        self._run("kafka-topics", "--create", f"--topic={name}", *sizes, *options)
        return None

    def delete_topic(self, name: str) -> Json:
        self._run("kafka-topics", "--delete", f"--topic={name}")
        return None

    def create_partitions(self, name: str, total: int) -> Json:
        self._run("kafka-topics", "--alter", f"--topic={name}", f"--partitions={total}")
        return None

    def describe_topic(self, name: str) -> list[Json]:
        text = self._run("kafka-topics", "--describe", f"--topic={name}")
        return [
            {"partition": int(partition), "replicas": replicas.count(",") + 1, "isr": isr.count(",") + 1}
            for partition, replicas, isr in _PARTITION_LINE.findall(text)
        ]

    def describe_configs(self, topic: str) -> dict[str, Json]:
        text = self._run("kafka-configs", "--describe", "--all", "--entity-type=topics", f"--entity-name={topic}")
        return {match["name"]: match["rest"] for match in _CONFIG_LINE.finditer(text)}

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> Json:
        added = ",".join(f"{name}=[{value}]" for name, value in changes.items() if value is not None)
        deleted = ",".join(name for name, value in changes.items() if value is None)
        options = [f"--add-config={added}"] if added else []
        options += [f"--delete-config={deleted}"] if deleted else []
        self._run("kafka-configs", "--alter", "--entity-type=topics", f"--entity-name={topic}", *options)
        return None

    def produce(self, topic: str, records: Sequence[Record], *, codec: str, acks: str) -> Json:
        """The tool cannot set timestamps. Where a record is refused it only logs that, and ends with 0."""
        reader = ("parse.key=true", "parse.headers=true", f"null.marker={_NULL}")
        self._run(
            "kafka-console-producer",
            f"--topic={topic}",
            f"--compression-codec={codec}",
            f"--request-required-acks={acks}",
            f"--command-property=max.request.size={REQUEST_SIZE_BYTES_MAX}",
            "--batch-size=0",
            *(f"--reader-property={item}" for item in reader),
            stdin="".join(_line(record) for record in records),
        )
        return None

    def consume(self, topic: str, count: int, *, fetch_size_bytes: int | None = None) -> list[Json]:
        limits = []
        if fetch_size_bytes is not None:
            names = ("max.partition.fetch.bytes", "fetch.max.bytes")
            limits = [f"--command-property={name}={fetch_size_bytes}" for name in names]
        parts = ("timestamp", "offset", "epoch", "headers", "key", "value")
        text = self._run(
            "kafka-console-consumer",
            f"--topic={topic}",
            "--partition=0",
            "--offset=earliest",
            f"--max-messages={count}",
            f"--timeout-ms={OPERATION_TIMEOUT_S * 1000:.0f}",
            f"--formatter-property=null.literal={_NULL}",
            *(f"--formatter-property=print.{part}=true" for part in parts),
            *limits,
        )
        return [_observe(line) for line in text.splitlines()]

    def list_offset(self, topic: str, partition: int, spec: str) -> Json:
        if spec == "max-timestamp":
            raise UnsupportedError("the producing tool sets no timestamps, so that the answer is up to the clock")
        return self._run("kafka-get-offsets", f"--topic-partitions={topic}:{partition}", f"--time={spec}").strip()

    def open_consumer(self, topic: str, group: str, **_: object) -> GroupConsumer:
        raise UnsupportedError("the tools have no consumer that goes on between calls")

    def open_producer(self, transactional_id: str | None, *, timeout_ms: int = 60_000) -> TransactionalProducer:
        raise UnsupportedError("the tools have no producer that goes on between calls")

    def close(self) -> None:
        self._toolbox.close()

    def _run(self, tool: str, *args: str, stdin: str | None = None) -> str:
        done = self._toolbox.run(tool, *self._bootstrap, *args, stdin=stdin, timeout=2 * OPERATION_TIMEOUT_S)
        if (found := _EXCEPTION.search(done.stderr)) is not None:
            raise ClientError(found[1])
        if done.returncode != 0:
            raise ClientError(f"exit code {done.returncode}")
        return done.stdout


def _line(record: Record) -> str:
    headers = ",".join(f"{name}:{_text(value)}" for name, value in record.headers) or _NULL
    return f"{headers}\t{_text(record.key)}\t{_text(record.value)}\n"


def _text(data: bytes | None) -> str:
    return _NULL if data is None else data.decode("ascii")


def _observe(line: str) -> Json:
    timestamp, offset, epoch, headers, key, value = line.split("\t")
    kind, _, _ = timestamp.partition(":")
    return {
        "offset": offset.removeprefix("Offset:"),
        "leader_epoch": epoch,
        "timestamp": kind,
        "key": show(key.encode()),
        "value": show(value.encode()),
        "headers": show_headers([("all", headers.encode())]),
    }
