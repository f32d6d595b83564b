"""Answers as plain JSON values, without what must differ between two brokers.

Ids that a broker makes up become the name of what they stand for, or a number in the order of their appearance;
times of this run become one word; lists whose elements have an identity become objects, since no client relies on
the order in which a broker happens to walk its tables. Where the order is that of the request, it stands beside them.
"""

from __future__ import annotations

import re
import time
from typing import Any

from conformance.client import Json, show, show_headers
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import ZERO_UUID, Fixed, Sized, uuid_text
from oncelog.protocol.records.batch import BatchHeader, iter_headers
from oncelog.protocol.records.record import iter_records
from oncelog.protocol.schema import ArrayType, FieldType, Struct, StructType

DROPPED = {"throttle_time_ms", "finalized_features_epoch", "preferred_read_replica"}
"""Depends on load and on history, and nothing else does."""

PLACES = {"port", "log_dir", "total_bytes", "usable_bytes", "session_id", "cluster_id", "broker_epoch"}
"""Only whether there is one is compared."""

TEXTS = {"documentation"}
"""Only whether there is one is compared; the wording is each broker's own."""

IDENTITIES = (
    "api_key",
    "name",
    "topic",
    "topic_name",
    "transactional_id",
    "group_id",
    "resource_name",
    "key",
    "partition_index",
    "index",
    "partition",
    "node_id",
    "broker_id",
    "replica_id",
    "user",
    "entity_type",
    "feature",
    "topic_id",
    "producer_id",
)
ORDERED = {"aborted_transactions", "synonyms"}
IN_ORDER_OF_REQUEST = {
    "FetchableTopicResponse",
    "PartitionData",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
}
ORDER = "(order)"
_GENERATED_MEMBER = re.compile(r"(.*?)-?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_-]{22})")
_CLUSTER_ID = re.compile(r"(?<=cluster id \")[A-Za-z0-9_-]{22}(?=\")")
_A_DAY_MS = 24 * 3600 * 1000


class Names:
    """What one broker's ids stand for."""

    def __init__(self) -> None:
        self.topics: dict[bytes, str] = {}
        self._numbers: dict[tuple[str, object], int] = {}
        self._counts: dict[str, int] = {}

    def forget(self) -> None:
        """Numbers begin anew, so that one dialogue's surplus id does not shift those of the next."""
        self._numbers.clear()
        self._counts.clear()

    def number(self, kind: str, value: object) -> str:
        if (kind, value) not in self._numbers:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._numbers[kind, value] = self._counts[kind]
        return f"{kind} {self._numbers[kind, value]}"

    def topic(self, topic_id: bytes) -> str:
        if topic_id == ZERO_UUID:
            return "no id"
        return f"id of {self.topics[topic_id]}" if topic_id in self.topics else self._unknown(topic_id)

    def member(self, member_id: str) -> str:
        found = _GENERATED_MEMBER.fullmatch(member_id)
        return member_id if found is None else f"{found[1]} {self.number('member', member_id)}".strip()

    @staticmethod
    def _unknown(topic_id: bytes) -> str:
        text = uuid_text(topic_id)
        return f"id {text}" if len(set(topic_id)) == 1 else "an id of this broker"


def plain(value: Struct, version: int, names: Names) -> dict[str, Json]:
    return {
        field.name: _field(field.name, field.type, getattr(value, field.name), version, names)
        for field in type(value).fields()
        if version in field.versions and field.name not in DROPPED
    }


def _field(name: str, kind: FieldType, value: Any, version: int, names: Names) -> Json:
    if value is None:
        return None
    if name in PLACES:
        return "some" if value not in (0, -1, "") else value
    if name in TEXTS:
        return "text" if value else value
    match kind:
        case StructType():
            return plain(value, version, names)
        case ArrayType(element):
            return _list(name, element, value, version, names)
        case Sized(name="records"):
            return _batches(value, names)
        case Sized(name="bytes"):
            return _bytes(bytes(value))
        case Sized():
            if name == "error_message":
                return _CLUSTER_ID.sub("some", value)
            return names.member(value) if name in ("member_id", "leader") else str(value)
        case Fixed(name="uuid"):
            return names.topic(value)
    if name == "producer_id" and value >= 0:
        return names.number("producer", value)
    if kind.name == "int64" and abs(value - time.time() * 1000) < _A_DAY_MS:
        return "now"
    return value  # type: ignore[no-any-return]


def _list(name: str, kind: FieldType, values: list[Any], version: int, names: Names) -> Json:
    if name in ORDERED or not isinstance(kind, StructType):
        return [_field(name, kind, value, version, names) for value in values]
    identity = next((known for known in IDENTITIES if _has(kind.struct, known, version)), None)
    if identity is None:
        return sorted((_field(name, kind, value, version, names) for value in values), key=repr)
    # Numbers for ids are given on the way, so that the way must be the same on every broker.
    given, values = values, sorted(values, key=lambda value: _sort_key(getattr(value, identity)))
    items = [_field(name, kind, value, version, names) for value in values]
    named: dict[str, Json] = {}
    for item in items:
        assert isinstance(item, dict)
        label = str(item[identity])
        if "resource_type" in item:
            label = f"{item['resource_type']} {label}"
        while label in named:
            label += " again"
        named[label] = item
    if kind.struct.__name__ in IN_ORDER_OF_REQUEST and len(given) > 1:
        identity_type = next(field.type for field in kind.struct.fields() if field.name == identity)
        named[ORDER] = [_field(identity, identity_type, getattr(value, identity), version, names) for value in given]
    return named


def _sort_key(identity: Any) -> Any:
    """Ids that a broker counts up are in the order in which it gave them out: 999 comes before 1000."""
    return identity if isinstance(identity, int) else str(identity)


def _has(struct: type[Struct], name: str, version: int) -> bool:
    return any(field.name == name and version in field.versions for field in struct.fields())


def _bytes(data: bytes) -> Json:
    return show(data)


def _batches(data: Any, names: Names) -> Json:
    view = memoryview(data)
    try:
        return [_batch(header, view[position:], names) for position, header in iter_headers(view)]
    except ProtocolError as error:
        return f"malformed: {error}"


def _batch(header: BatchHeader, view: memoryview, names: Names) -> Json:
    shown: dict[str, Json] = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "leader_epoch": header.leader_epoch,
        "attributes": header.attributes,
        "producer_id": names.number("producer", header.producer_id) if header.producer_id >= 0 else -1,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
    }
    shown["records"] = [
        {
            "offset": record.offset,
            "timestamp": "now" if abs(record.timestamp - time.time() * 1000) < _A_DAY_MS else record.timestamp,
            "key": show(record.key),
            "value": show(record.value),
            "headers": show_headers(record.headers),
        }
        for record in iter_records(view)
    ]
    return shown
