"""`oncelog consume`: prints records in a format of choice, or as JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, BinaryIO

import typer

from oncelog.cli.app import BOOTSTRAP_DEFAULT, Bootstrap, CommandConfig, open_cluster, run_app
from oncelog.cli.help import App
from oncelog.cli.json_records import to_json
from oncelog.cli.record_format import FormatError, compile_format
from oncelog.client.consumer import ConsumedRecord, Consumer, Start
from oncelog.client.offsets import Isolation

app = App("")

FORMAT_DEFAULT = r"%v\n"

Writer = Callable[[ConsumedRecord], bytes]


class IsolationName(StrEnum):
    committed = "read_committed"
    uncommitted = "read_uncommitted"


_ISOLATIONS = {
    IsolationName.committed: Isolation.READ_COMMITTED,
    IsolationName.uncommitted: Isolation.READ_UNCOMMITTED,
}


def run(argv: list[str]) -> int:
    return run_app(app, "consume", argv or ["--help"])


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    offset: Annotated[
        str,
        typer.Option(
            "--offset",
            "-o",
            metavar="START",
            help="beginning, end, an offset N, -N for the last N of each partition, or s@TIME "
            "(milliseconds since 1970, or 2025-01-31T12:00:00).",
        ),
    ] = "beginning",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this one; repeatable.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", metavar="N", min=1, help="Stop after this many records.")
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit", "-e", help="Stop at the end instead of waiting for more.")
    ] = False,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="%t topic, %p partition, %o offset, %k key, %v or %s value, %T timestamp, %h headers, "
            "%K and %S size of key and value (-1: null), %% percent; \\n \\t \\xNN.",
        ),
    ] = FORMAT_DEFAULT,
    json: Annotated[bool, typer.Option("--json", help="Print an object per record.")] = False,
    isolation: Annotated[
        IsolationName,
        typer.Option(
            "--isolation",
            metavar="LEVEL",
            help="read_committed, or read_uncommitted to see what open and aborted transactions wrote.",
        ),
    ] = IsolationName.committed,
    unbuffered: Annotated[bool, typer.Option("--unbuffered", "-u", help="Write each record by itself.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    command_config: CommandConfig = None,
) -> None:
    """Print the records of a topic and wait for more, until Ctrl-C.

    Examples:
      oncelog consume orders -e
      oncelog consume orders -o -10 -f '%p/%o %k=%v\\n'
      oncelog consume orders --json -e | jq .value
    """
    if json and format != FORMAT_DEFAULT:
        raise typer.BadParameter("--json is a format of its own; it does not go with -f")
    start = parse_start(offset)
    writer = _writer(topic, format, json)
    with open_cluster(bootstrap, command_config) as cluster:
        consumer = Consumer(cluster, topic, partitions=partition, start=start, isolation=_ISOLATIONS[isolation])
        _print(consumer, writer, sys.stdout.buffer, count=count, follow=not exit_at_end, unbuffered=unbuffered)


def _writer(topic: str, format: str, json: bool) -> Writer:
    if json:
        return lambda consumed: to_json(topic, consumed) + b"\n"
    try:
        return compile_format(format, topic)
    except FormatError as error:
        raise typer.BadParameter(str(error)) from None


def _print(
    consumer: Consumer, writer: Writer, out: BinaryIO, *, count: int | None, follow: bool, unbuffered: bool
) -> None:
    left = -1 if count is None else count
    try:
        for poll in consumer.polls(follow=follow):
            for consumed in poll:
                out.write(writer(consumed))
                if unbuffered:
                    out.flush()
                left -= 1
                if left == 0:
                    return
            # The next fetch may wait for long; what is known should be seen before it.
            out.flush()
    finally:
        out.flush()


def parse_start(text: str) -> Start:
    """The argument of -o, as kcat has it."""
    if text in ("beginning", "earliest"):
        return Start.earliest()
    if text in ("end", "latest"):
        return Start.latest()
    if text.startswith("s@"):
        return Start.timestamp(_parse_time(text[2:]))
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or int(digits) >= 2**63:
        raise typer.BadParameter(f"{text!r} is no start: give beginning, end, N, -N or s@TIME")
    return Start.tail(int(digits)) if text.startswith("-") else Start.offset(int(digits))


def _parse_time(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text) < 2**63:
        return int(text)
    try:
        return max(0, round(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time: give milliseconds since 1970, or 2025-01-31T12:00:00") from None
