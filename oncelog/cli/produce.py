"""`oncelog produce`: records from lines, JSON objects or whole files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oncelog.cli.app import BOOTSTRAP_DEFAULT, Bootstrap, CommandConfig, InputError, open_cluster, run_app
from oncelog.cli.escapes import unescape
from oncelog.cli.help import App
from oncelog.cli.json_records import OutgoingRecord, from_json
from oncelog.cli.line_reader import iter_lines
from oncelog.cli.output import count_text
from oncelog.client.errors import ClientError
from oncelog.client.producer import ACKS_ALL, Producer
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records.compression import Compression

app = App("")

_PROGRESS_INTERVAL_S = 0.2


class Codec(StrEnum):
    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"


class Acks(StrEnum):
    all = "all"
    leader = "1"
    none = "0"


_ACKS = {Acks.all: ACKS_ALL, Acks.leader: 1, Acks.none: 0}


def run(argv: list[str]) -> int:
    return run_app(app, "produce", argv or ["--help"])


@app.command()
def produce(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic; made by the broker if it is missing and may be.")
    ],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Each file is the value of one record.")
    ] = None,
    lines: Annotated[
        list[Path] | None,
        typer.Option("--lines", "-l", metavar="FILE", help="Read lines from FILE, - for stdin; repeatable."),
    ] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("--key-delimiter", "-K", metavar="TEXT", help="Lines are KEY, this text, VALUE."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="TEXT", help="The same key for all records.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="Default: by key, or one after the other."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="For all records; repeatable."),
    ] = None,
    compression: Annotated[
        Codec, typer.Option("--compression", "-z", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = Codec.none,
    acks: Annotated[
        Acks, typer.Option("--acks", metavar="ACKS", help="Who must have a record before it counts: all, 1 or 0.")
    ] = Acks.all,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Lines are objects {key, value, headers, partition, timestamp}. Those that consume --json wrote keep "
            "their partition, modulo the number of partitions that the topic has.",
        ),
    ] = False,
    null_value: Annotated[
        bool, typer.Option("--null-value", "-Z", help="An empty value is sent as null, a tombstone.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the count.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
) -> None:
    """Write records to a topic: a record per line of stdin, unless files are given.

    Examples:
      echo alice:hello | oncelog produce orders -K :
      oncelog produce orders photo.jpg
      oncelog consume old --json -e | oncelog produce new --json
    """
    if json and (key_delimiter is not None or files):
        raise typer.BadParameter("--json says where the key is; it goes with neither -K nor files")
    if key is not None and key_delimiter is not None:
        raise typer.BadParameter("-k and -K both say what the key is; give one")
    if key_delimiter == "":
        raise typer.BadParameter("the key delimiter is empty")
    defaults = OutgoingRecord(None, None if key is None else unescape(key), _parse_headers(header or []), partition)
    delimiter = None if key_delimiter is None else unescape(key_delimiter)
    with open_cluster(bootstrap, command_config) as cluster:
        idempotent = acks is Acks.all and cluster.supports(ApiKey.INIT_PRODUCER_ID)
        codec = Compression[compression.name.upper()]
        producer = Producer(cluster, acks=_ACKS[acks], compression=codec, idempotent=idempotent)
        # A wrong topic should be told before anybody types a line.
        partition_count = len(cluster.topic(topic, auto_create=True).partitions)
        source = _Source(json, delimiter, null_value, defaults, partition_count)
        records = source.from_files(files) if files else source.from_lines(lines or [Path("-")])
        _send(producer, topic, records, quiet)


def _send(producer: Producer, topic: str, records: Iterator[OutgoingRecord | None], quiet: bool) -> None:
    progress = _Progress(quiet)
    try:
        for record in records:
            if record is None:
                producer.flush()
            else:
                producer.produce(
                    topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                progress.show(producer.delivered_count)
        producer.flush()
    except (InputError, KeyboardInterrupt):
        # What came before the bad line, or before Ctrl-C, was given to be written.
        producer.flush()
        progress.break_off(topic, producer.delivered_count)
        raise
    except (ClientError, KafkaError):
        progress.break_off(topic, producer.delivered_count)
        raise
    progress.end(topic, producer.delivered_count)


class _Source:
    """Records out of lines or files; None stands for a pause in the input."""

    def __init__(
        self, json: bool, delimiter: bytes | None, null_value: bool, defaults: OutgoingRecord, partition_count: int
    ) -> None:
        self._json = json
        self._delimiter = delimiter
        self._null_value = null_value
        self._defaults = defaults
        self._partition_count = partition_count

    def from_files(self, paths: list[Path]) -> Iterator[OutgoingRecord]:
        for path in paths:
            yield self._finish(self._defaults._replace(value=path.read_bytes()))

    def from_lines(self, paths: list[Path]) -> Iterator[OutgoingRecord | None]:
        for path in paths:
            if str(path) == "-":
                if sys.stdin is None:
                    raise InputError("stdin is closed; give --lines FILE, or files")
                yield from self._from_descriptor(sys.stdin.fileno(), "stdin")
            else:
                with path.open("rb") as file:
                    yield from self._from_descriptor(file.fileno(), str(path))

    def _from_descriptor(self, fd: int, name: str) -> Iterator[OutgoingRecord | None]:
        number = 0
        for line in _read_lines(fd, name):
            if line is None:
                yield None
                continue
            number += 1
            try:
                yield self._finish(self._parse(line))
            except ValueError as error:
                raise InputError(f"{name}, line {number}: {error}") from None

    def _parse(self, line: bytes) -> OutgoingRecord:
        defaults = self._defaults
        if self._json:
            given = from_json(line, self._partition_count)
            return OutgoingRecord(
                given.value,
                defaults.key if given.key is None else given.key,
                (*given.headers, *defaults.headers),
                defaults.partition if given.partition is None else given.partition,
                given.timestamp_ms,
            )
        if self._delimiter is not None:
            key, found, value = line.partition(self._delimiter)
            if found:
                return defaults._replace(key=key, value=value)
        return defaults._replace(value=line)

    def _finish(self, record: OutgoingRecord) -> OutgoingRecord:
        return record._replace(value=None) if self._null_value and record.value == b"" else record


def _read_lines(fd: int, name: str) -> Iterator[bytes | None]:
    try:
        yield from iter_lines(fd)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None


def _parse_headers(pairs: list[str]) -> tuple[tuple[str, bytes | None], ...]:
    headers: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE")
        headers.append((name, unescape(value) if equals else None))
    return tuple(headers)


class _Progress:
    """A count that grows on a terminal, and the final one."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty() and not (sys.stdin and sys.stdin.isatty())
        self._next = time.monotonic() + 1
        self._shown = False

    def show(self, count: int) -> None:
        if self._live and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_INTERVAL_S
            self._shown = True
            print(f"\r{count_text(count, 'record')} ", end="", file=sys.stderr, flush=True)

    def break_off(self, topic: str, count: int) -> None:
        """To go on later, one has to know how far it got."""
        if count:
            self.end(topic, count)

    def end(self, topic: str, count: int) -> None:
        if not self._quiet:
            start = "\r" if self._shown else ""
            print(f"{start}{count_text(count, 'record')} produced to {topic}", file=sys.stderr)
