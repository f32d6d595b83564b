"""Plans and generated code do the same: whatever a plan takes on, it does as the generated code would."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.protocol import compiler
from oncelog.protocol import plan as plans
from oncelog.protocol.codegen_decode import DecodeWriter
from oncelog.protocol.codegen_encode import EncodeWriter
from oncelog.protocol.compiler import ELEMENTS_MAX, decode, encode
from oncelog.protocol.errors import TooManyElementsError
from oncelog.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.protocol.messages.list_groups import ListGroupsRequest
from oncelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.messages.transaction_records import PartitionsSchema, TransactionLogValue
from oncelog.protocol.plan import NoPlan, Plan, layout_of, make_plan
from oncelog.protocol.primitives import StoredBytes, encode_uvarint
from oncelog.protocol.schema import Message
from tests.protocol.declarations import EXAMPLES, MESSAGE_VERSIONS, name_of, sample, values

_codec = pytest.importorskip("oncelog.protocol._codec", reason="the C extension is not built")

every_version = pytest.mark.parametrize(("message", "version"), MESSAGE_VERSIONS, ids=name_of)

PRODUCE = make_plan(ProduceRequest, 9)


def long_way(message: type[Message], version: int) -> tuple[Any, Any]:
    """The generated code."""
    return DecodeWriter(message, version).compile(), EncodeWriter(message, version).compile()


def planned(plan: Plan, value: Message) -> bytes | None:
    parts: list[Any] = [b"before"]
    done = plan.encode(value, parts)
    assert parts[0] == b"before"
    assert done or len(parts) == 1
    return b"".join(parts[1:]) if done else None


@every_version
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_both_write_and_read_the_same(message: type[Message], version: int, data: st.DataObject) -> None:
    plan, (decoder, encoder) = make_plan(message, version), long_way(message, version)
    value = data.draw(values(message, version))
    parts: list[Any] = []
    encoder(value, parts.append)
    expected = b"".join(parts)
    assert planned(plan, value) in (expected, None)
    assert plan.decode(expected, 0, ELEMENTS_MAX) in (decoder(memoryview(expected), 0, ELEMENTS_MAX), None)


@every_version
def test_what_is_usual_is_planned(message: type[Message], version: int) -> None:
    plan, (_, encoder) = make_plan(message, version), long_way(message, version)
    for value in (sample(message, version), message()):
        parts: list[Any] = []
        encoder(value, parts.append)
        expected = b"".join(parts)
        assert planned(plan, value) == expected
    # Of a message with its defaults no tagged field is written.
    assert plan.decode(b"head" + expected + b"tail", 4, ELEMENTS_MAX) == (message(), 4 + len(expected))


@every_version
@settings(max_examples=EXAMPLES)
@given(data=st.data(), flips=st.lists(st.integers(0, 2**16), min_size=1, max_size=4), cut=st.integers(0, 40))
def test_damaged_bytes_are_read_alike_or_left_alone(
    message: type[Message], version: int, data: st.DataObject, flips: list[int], cut: int
) -> None:
    plan, (decoder, _) = make_plan(message, version), long_way(message, version)
    encoded = bytearray(encode(data.draw(values(message, version)), version))
    for flip in flips if encoded else ():
        encoded[flip // 8 % len(encoded)] ^= 1 << flip % 8
    damaged = bytes(encoded[: max(0, len(encoded) - cut)])
    found = plan.decode(damaged, 0, ELEMENTS_MAX)
    if found is not None:
        expected = decoder(memoryview(damaged), 0, ELEMENTS_MAX)
        # NaN is not equal to itself.
        assert found == expected or ("nan" in repr(found) and repr(found) == repr(expected))


@every_version
def test_a_cut_message_is_left_alone(message: type[Message], version: int) -> None:
    plan = make_plan(message, version)
    encoded = encode(message(), version)
    for size_bytes in range(len(encoded)):
        assert plan.decode(encoded[:size_bytes], 0, ELEMENTS_MAX) is None


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
def test_values_that_are_not_usual_are_left_alone(change: dict[str, Any]) -> None:
    value = request()
    for name, given_value in change.items():
        setattr(value, name, given_value)
    assert planned(PRODUCE, value) is None


def test_a_field_that_is_not_set_is_left_alone() -> None:
    value = request()
    del value.acks
    assert planned(PRODUCE, value) is None
    with pytest.raises(AttributeError):
        encode(value, 9)


def test_an_object_of_another_class_is_left_alone() -> None:
    assert planned(PRODUCE, FetchResponse()) is None

    class Derived(ProduceRequest, versions="0-13", flexible="9+", api_key=0):
        pass

    assert planned(PRODUCE, Derived()) is None


def test_what_was_written_before_something_unusual_is_taken_back() -> None:
    value = request(bytes(10_000))
    value.topic_data.append(TopicProduceData(name="\ud800"))
    assert planned(PRODUCE, value) is None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size_bytes", [0, 1, 126, 127, 4096, 4097, 100_000])
def test_many_bytes_are_not_copied(kind: Any, size_bytes: int) -> None:
    records = kind(bytes(size_bytes))
    parts: list[Any] = []
    assert PRODUCE.encode(request(records), parts)
    assert b"".join(parts) == encode(request(records), 9)
    assert any(part is records for part in parts) == (size_bytes > 4096)


def test_stored_bytes_are_a_part_of_their_own() -> None:
    class Stored(StoredBytes):
        def __len__(self) -> int:
            return 300

    stored = Stored()
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=stored)])])
    parts: list[Any] = []
    assert make_plan(FetchResponse, 12).encode(response, parts)
    assert [part is stored for part in parts] == [False, True, False]
    # Length and one more, as a varint.
    assert parts[0].endswith(encode_uvarint(301))


def test_records_are_views_of_any_buffer() -> None:
    encoded = encode(request(), 9)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        found = PRODUCE.decode(buffer, 0, ELEMENTS_MAX)
        assert found is not None
        records = found[0].topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert records.obj is (encoded if isinstance(buffer, memoryview) else buffer)


@pytest.mark.parametrize("elements_max", [0, 1, 7, 5000])
def test_a_message_over_its_budget_is_refused_by_both(elements_max: int) -> None:
    (decoder, _), plan = long_way(ListGroupsRequest, 4), make_plan(ListGroupsRequest, 4)
    for count in (elements_max, elements_max + 1):
        data = encode_uvarint(count + 1) + b"\x01" * count + b"\x00"
        if count <= elements_max:
            expected = decoder(memoryview(data), 0, elements_max)
            assert (
                plan.decode(data, 0, elements_max)
                == expected
                == (ListGroupsRequest(states_filter=[""] * count), len(data))
            )
        else:
            assert plan.decode(data, 0, elements_max) is False
            with pytest.raises(TooManyElementsError):
                decoder(memoryview(data), 0, elements_max)
            with pytest.raises(TooManyElementsError):
                decode(ListGroupsRequest, 4, data, elements_max=elements_max)


@pytest.mark.parametrize("position", [-1, 1000])
def test_a_position_outside_the_buffer_is_left_alone(position: int) -> None:
    assert PRODUCE.decode(encode(request(), 9), position, ELEMENTS_MAX) is None


def test_tagged_fields_that_differ_are_written() -> None:
    value = TransactionLogValue(
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 1])], previous_producer_id=7
    )
    parts: list[Any] = []
    EncodeWriter(TransactionLogValue, 1).compile()(value, parts.append)
    assert planned(make_plan(TransactionLogValue, 1), value) == b"".join(parts)


@pytest.mark.parametrize(
    "layout",
    [
        (),
        (ProduceRequest, True, (), (), (), ("no_such_field",)),
        (ProduceRequest, True, (("acks", (99, False, False, 0, None, None)),), (), (), ()),
        (ProduceRequest, True, (("acks", (12, False, False, 0, None, None)),), (), (), ()),
        (ProduceRequest, True, (("acks", 1),), (), (), ()),
        ("no class", True, (), (), (), ()),
    ],
)
def test_a_plan_that_is_none_is_refused(layout: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        _codec.Plan(layout)


def test_plans_and_messages_leave_nothing_behind() -> None:
    encoded = encode(request(), 9)
    layout = layout_of(ProduceRequest, 9)

    def once() -> None:
        plan = _codec.Plan(layout)
        message, _ = plan.decode(encoded, 0, ELEMENTS_MAX)
        assert plan.encode(message, [])
        assert plan.decode(encoded[:-1], 0, ELEMENTS_MAX) is None

    once()
    gc.collect()
    counts = [sys.getrefcount(each) for each in (ProduceRequest, TopicProduceData, PartitionProduceData, None)]
    for _ in range(1000):
        once()
    gc.collect()
    now = [sys.getrefcount(each) for each in (ProduceRequest, TopicProduceData, PartitionProduceData, None)]
    assert now[:3] == counts[:3]
    # Others use it, too.
    assert abs(now[3] - counts[3]) < 500


@pytest.fixture
def without_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_codec", None)
    monkeypatch.setattr(compiler, "_plans", {})


@pytest.mark.usefixtures("without_extension")
def test_generated_code_does_everything_without_the_extension() -> None:
    assert isinstance(make_plan(ProduceRequest, 9), NoPlan)
    value = request()
    assert decode(ProduceRequest, 9, encode(value, 9)) == value


def test_an_interrupt_is_not_swallowed() -> None:
    class Interrupted(StoredBytes):
        def __len__(self) -> int:
            raise KeyboardInterrupt

    parts: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        PRODUCE.encode(request(Interrupted()), parts)


def test_a_value_that_lets_go_of_its_message_is_held_meanwhile() -> None:
    value = request()

    class Emptying(StoredBytes):
        def __len__(self) -> int:
            value.topic_data.clear()
            gc.collect()
            return 5

    value.topic_data[0].partition_data[0].records = Emptying()  # type: ignore[assignment]
    PRODUCE.encode(value, [])
