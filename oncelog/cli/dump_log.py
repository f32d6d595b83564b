"""`oncelog dump-log`: what segment, index and checkpoint files hold."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from oncelog.cli.app import InputError, run_app
from oncelog.cli.help import App
from oncelog.cli.json_records import show_bytes, show_name
from oncelog.cli.streams import EXIT_FAILURE, EXIT_OK
from oncelog.inspect.directories import is_partition
from oncelog.inspect.dump import Row, UnknownFile, dump_file, is_known

app = App("")

_SHOWN_CHARACTERS_MAX = 100


def run(argv: list[str]) -> int:
    return run_app(app, "dump-log", argv or ["--help"])


@app.command()
def dump_log(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE|DIR", help="Files, partition directories or data directories."),
    ],
    records: Annotated[bool, typer.Option("--records", "-r", help="Also the records of each batch.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print an object per line.")] = False,
) -> int:
    """Print what is in .log, .index, .timeindex, .txnindex, .snapshot and checkpoint files.

    Reads files of Oncelog and of Apache Kafka. Exit code 1 if a file is damaged; see also verify-log.
    """
    damaged = False
    for path in _files(paths):
        try:
            rows = dump_file(path, records=records)
        except UnknownFile as error:
            raise InputError(str(error)) from None
        if not json:
            print(path)
        for row in rows:
            damaged = damaged or row["type"] == "damage" or row.get("crc_ok") is False
            print(_json_line(path, row) if json else f"  {_text_line(row)}")
    return EXIT_FAILURE if damaged else EXIT_OK


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist")
        if path.is_dir():
            found = list(_files_of_directory(path))
            if not found:
                raise InputError(f"{path} has no files that can be dumped")
            yield from found
        else:
            yield path


def _files_of_directory(directory: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        if is_known(entry):
            yield entry
        elif is_partition(entry):
            yield from _files_of_directory(entry)


def _json_line(path: Path, row: Row) -> str:
    shown = {"file": str(path), **row}
    if row["type"] == "record":
        shown["key"], shown["value"] = show_bytes(row["key"]), show_bytes(row["value"])
        shown["headers"] = [[show_name(name), show_bytes(value)] for name, value in row["headers"]]
    return json_module.dumps(shown, ensure_ascii=False)


# -- lines for people ----------------------------------------------------------------------------------------


def _text_line(row: Row) -> str:
    return _LINES[row["type"]](row)


def _batch_line(row: Row) -> str:
    offsets = str(row["base_offset"])
    if row["last_offset"] != row["base_offset"]:
        offsets += f"-{row['last_offset']}"
    parts = [
        f"offset {offsets}",
        f"at {row['position']}",
        f"{row['size_bytes']} bytes",
        f"{row['records']} record{'' if row['records'] == 1 else 's'}",
    ]
    if row["compression"] != "none":
        parts.append(row["compression"])
    parts.append(f"epoch {row['leader_epoch']}")
    stamped = "appended" if row["timestamp_type"] == "append" else "created"
    parts.append(f"{stamped} {_time_text(row['max_timestamp'])}")
    if row["producer_id"] >= 0:
        parts.append(f"producer {row['producer_id']}/{row['producer_epoch']}")
        if row["base_sequence"] >= 0:
            parts.append(f"sequence {row['base_sequence']}-{row['last_sequence']}")
    parts += [word for word in ("transactional", "control") if row[word]]
    if row["delete_horizon"] is not None:
        parts.append(f"delete horizon {_time_text(row['delete_horizon'])}")
    parts.append(f"crc {row['crc']}" if row["crc_ok"] else f"CRC {row['crc']} IS WRONG")
    return ", ".join(parts)


def _record_line(row: Row) -> str:
    parts = [f"| offset {row['offset']}", _time_text(row["timestamp"])]
    parts.append(f"key {_shorten(row['key'])}")
    parts.append(f"value {_shorten(row['value'])}")
    if row["headers"]:
        shown = (f"{show_name(name)}={_shorten(value)}" for name, value in row["headers"])
        parts.append(f"headers {' '.join(shown)}")
    return ", ".join(parts)


def _marker_line(row: Row) -> str:
    return f"| offset {row['offset']}, {row['marker']} marker, coordinator epoch {row['coordinator_epoch']}"


def _aborted_line(row: Row) -> str:
    return (
        f"producer {row['producer_id']} aborted offsets {row['first_offset']}-{row['last_offset']}, "
        f"stable up to {row['last_stable_offset']}"
    )


def _producer_line(row: Row) -> str:
    parts = [f"producer {row['producer_id']}/{row['epoch']}", f"last sequence {row['last_sequence']}"]
    parts.append(f"last offsets {row['last_offset'] - row['offset_delta']}-{row['last_offset']}")
    parts.append(_time_text(row["timestamp"]))
    if row["coordinator_epoch"] >= 0:
        parts.append(f"coordinator epoch {row['coordinator_epoch']}")
    if row["txn_first_offset"] >= 0:
        parts.append(f"transaction open since {row['txn_first_offset']}")
    return ", ".join(parts)


def _damage_line(row: Row) -> str:
    place = f" at {row['position']}" if "position" in row else ""
    return f"DAMAGED{place}: {row['reason']}"


_LINES: dict[str, Callable[[Row], str]] = {
    "batch": _batch_line,
    "record": _record_line,
    "marker": _marker_line,
    "offset_index": lambda row: f"offset {row['offset']} at {row['position']}",
    "time_index": lambda row: f"{_time_text(row['timestamp'])} at offset {row['offset']}",
    "aborted_txn": _aborted_line,
    "producer": _producer_line,
    "leader_epoch": lambda row: f"epoch {row['epoch']} from offset {row['start_offset']}",
    "checkpoint": lambda row: f"{row['topic']}-{row['partition']} {row['offset']}",
    "text": lambda row: str(row["line"]),
    "damage": _damage_line,
}


def _time_text(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{timestamp_ms % 1000:03d}Z"


def _shorten(data: bytes | None) -> str:
    shown: Any = show_bytes(data)
    if shown is None:
        return "null"
    text = json_module.dumps(shown, ensure_ascii=False) if isinstance(shown, str) else f"0x{(data or b'').hex()}"
    if len(text) > _SHOWN_CHARACTERS_MAX:
        return f"{text[:_SHOWN_CHARACTERS_MAX]}… ({len(data or b'')} bytes)"
    return text
