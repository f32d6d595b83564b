from __future__ import annotations

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import read_header
from oncelog.protocol.records.control import (
    ControlType,
    EndTxnMarker,
    build_marker_batch,
    decode_control_key,
    decode_end_txn_marker,
)
from oncelog.protocol.records.record import Record, iter_records

T0 = 1_700_000_000_000


def build(control_type: ControlType) -> bytearray:
    return build_marker_batch(
        EndTxnMarker(control_type, 11),
        producer_id=1234,
        producer_epoch=5,
        timestamp=T0,
        base_offset=15,
        leader_epoch=3,
    )


@pytest.mark.parametrize("control_type", ControlType)
def test_markers_are_those_of_java(control_type: ControlType, java_batches: dict[str, bytes]) -> None:
    assert build(control_type) == java_batches[control_type.name.lower()]


def test_marker_header() -> None:
    header = read_header(build(ControlType.COMMIT))
    assert header.is_control
    assert header.is_transactional
    assert (header.base_sequence, header.last_sequence, header.record_count) == (-1, -1, 1)


@pytest.mark.parametrize("control_type", ControlType)
def test_decode_gives_what_was_built(control_type: ControlType) -> None:
    (record,) = iter_records(build(control_type))
    assert decode_end_txn_marker(record) == EndTxnMarker(control_type, 11)
    assert decode_control_key(record.key) == control_type


def test_other_clients_understand_the_markers() -> None:
    for control_type, aiokafka_marker in (
        (ControlType.ABORT, ABORT_MARKER),
        (ControlType.COMMIT, COMMIT_MARKER),
    ):
        (theirs,) = KafkaPythonBatch(bytes(build(control_type)))
        assert (theirs.abort, theirs.commit) == (control_type == 0, control_type == 1)
        assert ControlRecord.parse(theirs.key) == aiokafka_marker


def test_fields_of_later_versions_are_ignored() -> None:
    record = Record(0, T0, b"\x00\x01\x00\x01extra", b"\x00\x02\x00\x00\x00\x07extra")
    assert decode_end_txn_marker(record) == EndTxnMarker(ControlType.COMMIT, 7)


def test_control_type_of_kraft_is_told_but_is_no_marker() -> None:
    assert decode_control_key(b"\x00\x00\x00\x02") == 2
    with pytest.raises(ProtocolError):
        decode_end_txn_marker(Record(0, T0, b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x07"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (b"\x00\x00\x00", bytes(6)),
        (b"\xff\xff\x00\x01", bytes(6)),
        (bytes(4), None),
        (bytes(4), bytes(5)),
        (bytes(4), b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_malformed_markers(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_end_txn_marker(Record(0, T0, key, value))


@given(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=8))
def test_any_record_gives_a_marker_or_a_protocol_error(key: bytes | None, value: bytes | None) -> None:
    try:
        decode_end_txn_marker(Record(0, T0, key, value))
    except ProtocolError:
        return
