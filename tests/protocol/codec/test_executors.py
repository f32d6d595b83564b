"""The C executor and the Python executor do the same; what one refuses, the other one refuses."""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.protocol import codec
from oncelog.protocol.codec import ELEMENTS_MAX, Executor, decode, encode
from oncelog.protocol.codec.plan import AbsentPlan, FieldPlan, StructPlan, ValuePlan, make_plan
from oncelog.protocol.codec.python import PythonExecutor
from oncelog.protocol.errors import ProtocolError, TooManyElementsError
from oncelog.protocol.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from oncelog.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData, SnapshotId
from oncelog.protocol.messages.list_groups import ListGroupsRequest
from oncelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.messages.transaction_records import PartitionsSchema, TransactionLogValue
from oncelog.protocol.primitives import StoredBytes, encode_uvarint
from oncelog.protocol.schema import Message
from tests.protocol.declarations import EXAMPLES, MESSAGE_VERSIONS, name_of, sample, values

native = pytest.importorskip("oncelog.protocol.codec._native", reason="the C extension is not built")

every_version = pytest.mark.parametrize(("message", "version"), MESSAGE_VERSIONS, ids=name_of)


class Refused(Exception):
    pass


class NoFallback:
    """In place of the Python executor: whatever the C executor hands over was refused."""

    def refuse(self, *_: Any) -> Any:
        raise Refused

    decode = decode_from = encode = refuse


@cache
def in_c(message: type[Message], version: int) -> Executor:
    return native.NativeExecutor(make_plan(message, version), NoFallback(), TooManyElementsError)


@cache
def in_python(message: type[Message], version: int) -> Executor:
    return PythonExecutor(message, version)


PRODUCE = in_c(ProduceRequest, 9)


def encoded_by(executor: Executor, value: Any) -> bytes:
    parts: list[Any] = [b"before"]
    try:
        executor.encode(value, parts)
    except Exception:
        assert parts == [b"before"] or isinstance(executor, PythonExecutor)
        raise
    assert parts[0] == b"before"
    return b"".join(parts[1:])


@every_version
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_both_write_and_read_the_same(message: type[Message], version: int, data: st.DataObject) -> None:
    value = data.draw(values(message, version))
    encoded = encoded_by(in_python(message, version), value)
    assert encoded_by(in_c(message, version), value) == encoded
    for executor in in_c(message, version), in_python(message, version):
        assert executor.decode_from(encoded, 0, ELEMENTS_MAX) == (value, len(encoded))


@every_version
def test_both_take_full_and_default_messages(message: type[Message], version: int) -> None:
    for value in (sample(message, version), message()):
        encoded = encoded_by(in_python(message, version), value)
        assert encoded_by(in_c(message, version), value) == encoded
        around = b"head" + encoded + b"tail"
        assert in_c(message, version).decode_from(around, 4, ELEMENTS_MAX) == (value, 4 + len(encoded))
        assert in_c(message, version).decode(around, 4, ELEMENTS_MAX) == value


@every_version
@settings(max_examples=EXAMPLES)
@given(data=st.data(), flips=st.lists(st.integers(0, 2**16), min_size=1, max_size=4), cut=st.integers(0, 40))
def test_both_refuse_the_same_damaged_bytes(
    message: type[Message], version: int, data: st.DataObject, flips: list[int], cut: int
) -> None:
    encoded = bytearray(encode(data.draw(values(message, version)), version))
    for flip in flips if encoded else ():
        encoded[flip // 8 % len(encoded)] ^= 1 << flip % 8
    damaged = bytes(encoded[: max(0, len(encoded) - cut)])
    check_alike(message, version, damaged)


@every_version
@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=100))
def test_both_refuse_the_same_random_bytes(message: type[Message], version: int, data: bytes) -> None:
    check_alike(message, version, data)


@every_version
def test_both_refuse_a_cut_message(message: type[Message], version: int) -> None:
    encoded = encode(sample(message, version), version)
    for size_bytes in range(len(encoded)):
        check_alike(message, version, encoded[:size_bytes])


def check_alike(message: type[Message], version: int, data: bytes) -> None:
    try:
        expected = in_python(message, version).decode_from(data, 0, ELEMENTS_MAX)
    except ProtocolError:
        with pytest.raises(Refused):
            in_c(message, version).decode_from(data, 0, ELEMENTS_MAX)
        return
    found = in_c(message, version).decode_from(data, 0, ELEMENTS_MAX)
    # NaN is not equal to itself.
    assert found == expected or ("nan" in repr(found) and repr(found) == repr(expected))


TAGS = st.lists(st.tuples(st.integers(0, 5) | st.integers(0, 2**32 - 1), st.binary(max_size=20)), max_size=4)


@pytest.mark.parametrize(("message", "version"), [(ProduceRequest, 9), (FetchResponse, 16), (TransactionLogValue, 1)])
@given(tags=TAGS, count_change=st.sampled_from([0, 0, 1, 70]), size_change=st.sampled_from([0, 0, 0, 1, -1]))
def test_both_read_the_same_tags(
    message: type[Message], version: int, tags: list[tuple[int, bytes]], count_change: int, size_change: int
) -> None:
    data = encode(message(), version)[:-1] + encode_uvarint(len(tags) + count_change)
    for tag, content in tags:
        data += encode_uvarint(tag) + encode_uvarint(max(0, len(content) + size_change)) + content
    check_alike(message, version, data)


@pytest.mark.parametrize("length", [2**14, 2**21, 2**28, 2**32 - 1])
def test_both_refuse_a_long_varint(length: int) -> None:
    check_alike(ListGroupsRequest, 4, encode_uvarint(length) + bytes(10))
    check_alike(ListGroupsRequest, 4, b"\xff\xff\xff\xff\x1f" + bytes(10))
    check_alike(ListGroupsRequest, 4, b"\x80\x80\x80\x80\x80\x01" + bytes(10))


def test_a_varint_may_be_longer_than_it_needs() -> None:
    check_alike(ListGroupsRequest, 4, b"\x82\x80\x80\x80\x00" + b"\x03ab" + b"\x80\x00")
    assert in_c(ListGroupsRequest, 4).decode(b"\x82\x80\x80\x80\x00" + b"\x03ab\x00", 0, 5).states_filter == ["ab"]


def request(records: Any = b"payload") -> ProduceRequest:
    return ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])]
    )


@pytest.mark.parametrize(
    "change",
    [
        {"acks": 2**15},
        {"acks": -(2**63) - 1},
        {"acks": 1.5},
        {"acks": None},
        {"transactional_id": b"bytes"},
        {"transactional_id": "\ud800"},
        {"topic_data": None},
        {"topic_data": (TopicProduceData(name="t"),)},
        {"topic_data": [PartitionProduceData()]},
        {"topic_data": [None]},
    ],
)
def test_values_of_other_types_are_left_to_python(change: dict[str, Any]) -> None:
    value = request()
    for name, given_value in change.items():
        setattr(value, name, given_value)
    with pytest.raises(Refused):
        encoded_by(PRODUCE, value)


def test_python_says_what_is_wrong_with_a_value() -> None:
    value = request()
    del value.acks
    with pytest.raises(Refused):
        encoded_by(PRODUCE, value)
    with pytest.raises(AttributeError):
        encode(value, 9)


def test_an_object_of_another_class_is_left_to_python() -> None:
    with pytest.raises(Refused):
        encoded_by(PRODUCE, FetchResponse())

    class Derived(ProduceRequest, versions="0-13", flexible="9+", api_key=0):
        pass

    with pytest.raises(Refused):
        encoded_by(PRODUCE, Derived())


def test_a_refused_message_leaves_no_parts() -> None:
    value = request(bytes(10_000))
    value.topic_data.append(TopicProduceData(name="\ud800"))
    with pytest.raises(Refused):
        encoded_by(PRODUCE, value)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size_bytes", [0, 1, 126, 127, 4096, 4097, 100_000])
def test_long_records_are_not_copied(kind: Any, size_bytes: int) -> None:
    records = kind(bytes(size_bytes))
    parts: list[Any] = []
    PRODUCE.encode(request(records), parts)
    assert b"".join(parts) == encode(request(records), 9)
    assert any(part is records for part in parts) == (size_bytes > 4096)


def test_stored_records_are_a_part_of_their_own() -> None:
    class Stored(StoredBytes):
        def __len__(self) -> int:
            return 300

    stored = Stored()
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=stored)])])
    parts: list[Any] = []
    in_c(FetchResponse, 12).encode(response, parts)
    assert [part is stored for part in parts] == [False, True, False]
    # Length and one more, as a varint.
    assert parts[0].endswith(encode_uvarint(301))


def test_records_are_views_of_any_buffer() -> None:
    encoded = encode(request(), 9)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        records = PRODUCE.decode(buffer, 0, ELEMENTS_MAX).topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert records.obj is (encoded if isinstance(buffer, memoryview) else buffer)


@pytest.mark.parametrize("elements_max", [0, 1, 7, 5000])
def test_both_refuse_a_message_over_its_budget(elements_max: int) -> None:
    for count in (elements_max, elements_max + 1):
        data = encode_uvarint(count + 1) + b"\x01" * count + b"\x00"
        for executor in in_c(ListGroupsRequest, 4), in_python(ListGroupsRequest, 4):
            if count <= elements_max:
                expected = ListGroupsRequest(states_filter=[""] * count)
                assert executor.decode_from(data, 0, elements_max) == (expected, len(data))
            else:
                with pytest.raises(TooManyElementsError, match="too many elements"):
                    executor.decode(data, 0, elements_max)
    with pytest.raises(TooManyElementsError):
        decode(ListGroupsRequest, 4, data, elements_max=elements_max)


@pytest.mark.parametrize("position", [-1, 1000])
def test_a_position_outside_the_buffer_is_refused(position: int) -> None:
    with pytest.raises(Refused):
        PRODUCE.decode(encode(request(), 9), position, ELEMENTS_MAX)


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (
            TransactionLogValue(
                transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 1])], previous_producer_id=7
            ),
            1,
        ),
        (FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(snapshot_id=SnapshotId())])]), 16),
        (
            FetchResponse(
                responses=[FetchableTopicResponse(partitions=[PartitionData(snapshot_id=SnapshotId(end_offset=5))])]
            ),
            16,
        ),
        (DescribeTransactionsResponse(transaction_states=[TransactionState(client_address="a", client_id="b")]), 0),
    ],
    ids=["numbers", "default struct", "struct", "strings"],
)
def test_tagged_fields_that_differ_from_their_default_are_written(value: Message, version: int) -> None:
    encoded = encoded_by(in_python(type(value), version), value)
    assert encoded_by(in_c(type(value), version), value) == encoded
    assert in_c(type(value), version).decode(encoded, 0, ELEMENTS_MAX) == value


INT16 = ValuePlan("h", False, False, 2)


@pytest.mark.parametrize(
    "plan",
    [
        (),
        StructPlan(ProduceRequest, True, (FieldPlan("no_such_field", INT16),), (), ()),
        StructPlan(ProduceRequest, True, (FieldPlan("fields", INT16),), (), ()),
        StructPlan(ProduceRequest, True, (), (AbsentPlan("no_such_field", list, None),), ()),
        StructPlan(ProduceRequest, True, (FieldPlan("acks", INT16._replace(kind="?!")),), (), ()),
        StructPlan(ProduceRequest, True, (FieldPlan("acks", INT16._replace(kind="array")),), (), ()),
        StructPlan(ProduceRequest, True, (FieldPlan("acks", INT16._replace(kind="struct")),), (), ()),
        StructPlan(ProduceRequest, True, (("acks", 1),), (), ()),  # type: ignore[arg-type]
        StructPlan("no class", True, (), (), ()),  # type: ignore[arg-type]
        make_plan(FetchResponse, 16)._replace(tagged=make_plan(FetchResponse, 16).tagged * 65),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(plan: Any) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        native.NativeExecutor(plan, NoFallback(), TooManyElementsError)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("decode", ()),
        ("decode", (b"", 0)),
        ("decode", (b"", None, 1)),
        ("decode", (b"", 0, "many")),
        ("decode", ("text", 0, 1)),
        ("decode_from", (b"", 0, 1, 2)),
        ("encode", (request(),)),
        ("encode", (request(), ())),
    ],
)
def test_wrong_arguments_are_a_type_error(method: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        getattr(PRODUCE, method)(*arguments)


def test_executors_and_messages_leave_nothing_behind() -> None:
    encoded = encode(request(), 9)
    plan = make_plan(ProduceRequest, 9)

    def once() -> None:
        executor = native.NativeExecutor(plan, NoFallback(), TooManyElementsError)
        message = executor.decode(encoded, 0, ELEMENTS_MAX)
        executor.encode(message, [])
        with pytest.raises(Refused):
            executor.decode(encoded[:-1], 0, ELEMENTS_MAX)

    classes = (ProduceRequest, TopicProduceData, PartitionProduceData, TooManyElementsError)
    once()
    gc.collect()
    counts = [sys.getrefcount(each) for each in classes]
    nones = sys.getrefcount(None)
    for _ in range(1000):
        once()
    gc.collect()
    assert [sys.getrefcount(each) for each in classes] == counts
    # Others use it, too.
    assert abs(sys.getrefcount(None) - nones) < 500


def test_python_does_everything_without_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "NativeExecutor", None)
    monkeypatch.setattr(codec, "_executors", {})
    value = request()
    assert decode(ProduceRequest, 9, encode(value, 9)) == value
    assert all(isinstance(each, PythonExecutor) for each in codec._executors.values())


def test_an_interrupt_is_not_swallowed() -> None:
    class Interrupted(StoredBytes):
        def __len__(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PRODUCE.encode(request(Interrupted()), [])


class Emptying(StoredBytes):
    """Takes the message apart while it is encoded."""

    def __init__(self, value: ProduceRequest) -> None:
        self._value = value

    def __len__(self) -> int:
        self._value.topic_data.clear()
        gc.collect()
        return 5


def test_a_value_that_changes_its_message_meanwhile_is_safe() -> None:
    value = request()
    value.topic_data.append(TopicProduceData(name="u"))
    value.topic_data[0].partition_data[0].records = Emptying(value)  # type: ignore[assignment]
    # Two topics were announced, and one is gone.
    with pytest.raises(Refused):
        encoded_by(PRODUCE, value)
