from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log import txn_index
from oncelog.broker.log.txn_index import AbortedTxn

int64 = st.integers(0, 2**63 - 1)


@given(st.lists(st.builds(AbortedTxn, int64, int64, int64, int64)))
def test_round_trip(aborted: list[AbortedTxn]) -> None:
    data = txn_index.encode(aborted)
    assert len(data) == 34 * len(aborted)
    assert txn_index.decode(data) == aborted


def test_layout_is_kafkas() -> None:
    expected = "0000" + "0000000000000005" + "000000000000001f" + "000000000000002e" + "000000000000002f"
    assert txn_index.encode([AbortedTxn(5, 31, 46, 47)]).hex() == expected


def test_a_torn_file_is_refused() -> None:
    data = txn_index.encode([AbortedTxn(1, 2, 3, 4)])
    with pytest.raises(ValueError, match="multiple"):
        txn_index.decode(data[:-1])
    with pytest.raises(ValueError, match="version"):
        txn_index.decode(b"\x00\x01" + data[2:])


def test_collect_stops_when_no_later_entry_can_matter() -> None:
    aborted = [AbortedTxn(1, 0, 5, 6), AbortedTxn(2, 7, 20, 9), AbortedTxn(3, 9, 30, 31)]
    found: list[AbortedTxn] = []
    assert txn_index.collect(aborted, 6, 9, found)
    assert found == [aborted[1]]
    found = []
    assert not txn_index.collect(aborted, 0, 100, found)
    assert found == aborted
