"""Records as JSON lines, for `consume --json` and `produce --json`; what one writes the other reads.

Bytes that are UTF-8 are a string; others are `{"base64": "…"}`. Headers are a list of [name, value], since a
name may come twice; an object is understood as well.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from oncelog.client.consumer import ConsumedRecord
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.records.batch import TimestampType

PARTITION_MAX = 2**31 - 1
TIMESTAMP_MAX = 2**63 - 1

_FIELDS = {
    "key",
    "value",
    "headers",
    "partition",
    "timestamp",
    # What consume writes beside them; only the offset has an effect.
    "topic",
    "offset",
    "timestamp_type",
}


class OutgoingRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def to_json(topic: str, consumed: ConsumedRecord) -> bytes:
    record = consumed.record
    shown = {
        "topic": topic,
        "partition": consumed.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "append" if consumed.timestamp_type is TimestampType.LOG_APPEND_TIME else "create",
        "key": show_bytes(record.key),
        "value": show_bytes(record.value),
        "headers": [[show_name(name), show_bytes(value)] for name, value in record.headers],
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(line: bytes, partition_count: int) -> OutgoingRecord:
    """Raises ValueError with what is wrong.

    A record with an offset was written by consume. It keeps its partition, modulo the partitions that there are:
    records that were in one partition stay together and in order, also in a topic with fewer of them.
    """
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} (column {error.colno})") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON: it is not UTF-8") from None
    except RecursionError:
        raise ValueError("not a record: its lists or objects are nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    unknown = sorted(data.keys() - _FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; a record has key, value, headers, partition, timestamp")
    partition = _read_number(data.get("partition"), "partition", PARTITION_MAX)
    if partition is not None and data.get("offset") is not None:
        partition %= partition_count
    return OutgoingRecord(
        _read(data.get("value"), "value"),
        _read(data.get("key"), "key"),
        _read_headers(data.get("headers")),
        partition,
        _read_number(data.get("timestamp"), "timestamp", TIMESTAMP_MAX),
    )


def show_bytes(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def show_name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read(value: Any, field: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"{field} is not base64: {error}") from None
    raise ValueError(f'{field} must be a string, null or {{"base64": "..."}}')


def _read_headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    if headers is None:
        return ()
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise ValueError("headers must be an object, or a list of [name, value]")
    return tuple((name, _read(value, f"header {name!r}")) for name, value in pairs)


def _read_number(value: Any, field: str, maximum: int) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError(f"{field} must be a whole number from 0 to {maximum}")
    return value
