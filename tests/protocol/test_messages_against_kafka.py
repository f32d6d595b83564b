"""Every declaration says what Apache Kafka's schema says: field by field, version by version."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conformance.reference.jars import missing
from conformance.reference.schemas import schemas
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.messages import request_class, response_class
from oncelog.protocol.primitives import ZERO_UUID, Fixed, Sized
from oncelog.protocol.schema import ArrayType, Field, Message, Struct, StructType, Versions, default_of
from tests.protocol.declarations import MESSAGES, is_own, name_of

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

CONTROLLER_ONLY = {
    "AllocateProducerIds",
    "AlterPartition",
    "AssignReplicasToDirs",
    "BeginQuorumEpoch",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "ControllerRegistration",
    "EndQuorumEpoch",
    "Envelope",
    "FetchSnapshot",
    "UpdateRaftVoter",
    "Vote",
}

REMOVED = {"ControlledShutdown", "LeaderAndIsr", "StopReplica", "UpdateMetadata"}

# Written by hand elsewhere, or about the metadata log, which this broker does not have.
NOT_DECLARED = {
    "ControlRecordTypeSchema",
    "DefaultPrincipalData",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "RequestHeader",
    "ResponseHeader",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
}


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
def test_versions_and_key(message: type[Message]) -> None:
    schema = schemas()[message.__name__]
    assert stable_versions(schema) == message.VERSIONS
    assert schema.get("apiKey") == message.API_KEY
    flexible = Versions.parse(schema["flexibleVersions"])
    for version in range(message.VERSIONS.first, message.VERSIONS.last + 1):
        assert (version in message.FLEXIBLE) == (version in flexible)


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
def test_fields(message: type[Message]) -> None:
    schema = schemas()[message.__name__]
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
    for version in range(message.VERSIONS.first, message.VERSIONS.last + 1):
        assert declared_layout(message, version) == kafka_layout(schema["fields"], common, version)


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
def test_every_declared_field_lives_in_some_version(message: type[Message]) -> None:
    versions = range(message.VERSIONS.first, message.VERSIONS.last + 1)
    for struct in nested_structs(message):
        for field in struct.fields():
            assert any(version in field.versions for version in versions), f"{struct.__name__}.{field.name}"


def test_fields_of_our_own() -> None:
    """Tagged, so that clients which do not know them skip them, and absent where nobody sets them."""
    found = {
        (message.__name__, field.name)
        for message in MESSAGES
        for struct in nested_structs(message)
        for field in struct.fields()
        if is_own(field)
    }
    names = ("client_address", "client_id")
    assert found == {("DescribeTransactionsResponse", name) for name in names}


def test_every_schema_of_kafka_is_declared_or_left_out_on_purpose() -> None:
    left_out = {name + side for name in CONTROLLER_ONLY | REMOVED for side in ("Request", "Response")}
    assert set(schemas()) == {message.__name__ for message in MESSAGES} | left_out | NOT_DECLARED


def test_api_keys() -> None:
    requests = {s["name"].removesuffix("Request"): s for s in schemas().values() if s["type"] == "request"}
    for_brokers = {name: s["apiKey"] for name, s in requests.items() if "broker" in s.get("listeners", [])}
    assert {api.camel: api.value for api in ApiKey} == for_brokers
    for_controllers = {name for name, s in requests.items() if s.get("listeners") == ["controller"]}
    assert for_controllers == CONTROLLER_ONLY
    assert {name for name, s in requests.items() if not s.get("listeners")} == REMOVED


@pytest.mark.parametrize("api", ApiKey)
def test_classes_are_found_by_key(api: ApiKey) -> None:
    request, response = request_class(api), response_class(api)
    assert (request.__name__, response.__name__) == (f"{api.camel}Request", f"{api.camel}Response")
    assert (api, api) == (request.API_KEY, response.API_KEY)
    assert (request.VERSIONS, request.FLEXIBLE) == (response.VERSIONS, response.FLEXIBLE)


def stable_versions(schema: dict[str, Any]) -> Versions:
    """The valid versions without the newest one where that is unstable; only the request says so."""
    valid = Versions.parse(schema["validVersions"])
    request = schemas().get(schema["name"].removesuffix("Response") + "Request", schema)
    return Versions(valid.first, valid.last - bool(request.get("latestVersionUnstable")))


Layout = list[tuple[Any, ...]]


def declared_layout(struct: type[Struct], version: int) -> Layout:
    """(name, type, nullable, tag, default) of each field, body first in its order, then tags in theirs."""
    present = [field for field in struct.fields() if version in field.versions and not is_own(field)]
    rows = []
    for field in present:
        tag = field.tag if version in field.tagged else None
        nullable = version in field.nullable
        rows.append((field.name, declared_type(field.type, version), nullable, tag, declared_default(field)))
    return body_then_tags(rows)


def declared_type(kind: Any, version: int) -> Any:
    match kind:
        case Fixed() | Sized():
            return kind.name
        case ArrayType(element):
            return ["array", declared_type(element, version)]
        case StructType(struct):
            return declared_layout(struct, version)


def declared_default(field: Field) -> Any:
    default = default_of(field)
    return "struct" if isinstance(default, Struct) else default


def kafka_layout(fields: list[dict[str, Any]], common: dict[str, Any], version: int) -> Layout:
    rows = []
    for field in fields:
        tagged = Versions.parse(field.get("taggedVersions", "none"))
        if version not in Versions.parse(field.get("versions", field.get("taggedVersions"))):
            continue
        kind = field["type"].removeprefix("[]")
        members = field.get("fields") or common.get(kind)
        kind = kafka_layout(members, common, version) if members else kind
        if field["type"].startswith("[]"):
            kind = ["array", kind]
        nullable = version in Versions.parse(field.get("nullableVersions", "none"))
        tag = field["tag"] if version in tagged else None
        rows.append((snake_case(field["name"]), kind, nullable, tag, kafka_default(field)))
    return body_then_tags(rows)


def kafka_default(field: dict[str, Any]) -> Any:
    # A JSON null is no default to Kafka's generator; the text "null" is.
    text = str(field["default"]) if field.get("default") is not None else ""
    if text == "null":
        return None
    match field["type"]:
        case "bool":
            return text.lower() == "true"
        case "string":
            return text
        case "uuid":
            return ZERO_UUID
        case "float64":
            return float(text or 0)
        case "bytes" | "records":
            # Kafka leaves records at null, which no reader expects in an answer; ours begin empty.
            return b""
        case kind if kind.startswith("[]"):
            return []
        case kind if kind[0].isupper():
            return "struct"
    return int(text or "0", 0)


def body_then_tags(rows: Layout) -> Layout:
    body = [row for row in rows if row[3] is None]
    return body + sorted((row for row in rows if row[3] is not None), key=lambda row: row[3])


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def nested_structs(struct: type[Struct]) -> set[type[Struct]]:
    found = {struct}
    for field in struct.fields():
        kind = field.type.element if isinstance(field.type, ArrayType) else field.type
        if isinstance(kind, StructType):
            found |= nested_structs(kind.struct)
    return found
