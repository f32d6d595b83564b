from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log import producer_snapshot
from oncelog.broker.log.producer_entry import ProducerBatch, ProducerEntry


@st.composite
def entries(draw: st.DrawFn) -> ProducerEntry:
    entry = ProducerEntry(draw(st.integers(0, 2**63 - 1)), draw(st.integers(0, 2**15 - 1)))
    entry.coordinator_epoch = draw(st.integers(-1, 2**31 - 1))
    entry.txn_first_offset = draw(st.integers(-1, 2**40))
    entry.last_timestamp = draw(st.integers(-1, 2**50))
    if draw(st.booleans()):
        delta = draw(st.integers(0, 1000))
        last = draw(st.integers(0, 2**31 - 1))
        offset = draw(st.integers(delta, 2**40))
        entry.batches.append(ProducerBatch((last - delta) % 2**31, last, offset - delta, offset, entry.last_timestamp))
    return entry


@given(st.lists(entries(), max_size=20))
def test_round_trip(producers: list[ProducerEntry]) -> None:
    decoded = producer_snapshot.decode(producer_snapshot.encode(producers))
    assert [entry.state() for entry in decoded] == [entry.state() for entry in producers]


def test_layout_is_kafkas_version_1() -> None:
    entry = ProducerEntry(5, 1)
    entry.coordinator_epoch = 2
    entry.txn_first_offset = 9
    entry.add_batch(ProducerBatch(7, 9, 100, 102, 1234))
    body = (
        "00000001" + "0000000000000005" + "0001" + "00000009" + "0000000000000066" + "00000002"
        "00000000000004d2" + "00000002" + "0000000000000009"
    )
    data = producer_snapshot.encode([entry])
    assert data[:2].hex() == "0001"
    assert data[6:].hex() == body


def test_every_flipped_bit_is_found() -> None:
    entry = ProducerEntry(5, 1)
    entry.add_batch(ProducerBatch(0, 9, 100, 109, 1234))
    data = producer_snapshot.encode([entry])
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match=r"version|checksum"):
            producer_snapshot.decode(bytes(changed))
    for size in range(len(data)):
        with pytest.raises(ValueError, match=r"shorter|checksum"):
            producer_snapshot.decode(data[:size])


def test_a_producer_without_data_keeps_its_open_transaction() -> None:
    entry = ProducerEntry(5, 1)
    entry.txn_first_offset = 3
    (decoded,) = producer_snapshot.decode(producer_snapshot.encode([entry]))
    assert decoded.txn_first_offset == 3
    assert not decoded.batches
