from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_disk import SimulatedDisk

from oncelog.broker.log import txn_index
from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.entry_file import Reader
from oncelog.broker.log.txn_index import BLOCK_ENTRIES, AbortedTxn, TxnIndex

PATH = "/00000000000000000000.txnindex"
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
    index = index_of(aborted)
    found: list[AbortedTxn] = []
    assert index.collect(6, 9, found)
    assert found == [aborted[1]]
    found = []
    assert not index.collect(0, 100, found)
    assert found == aborted


# -- how much of it a search looks at ------------------------------------------------------------------------


def test_a_read_at_the_tail_searches_one_block_of_many(searched: list[int]) -> None:
    index = index_of(one_after_the_other(20_000))
    assert collected(index, 39_996, 40_000) == [(19_998, 39_996, 39_997), (19_999, 39_998, 39_999)]
    assert len(searched) == 1
    assert collected(index, 20_000, 20_002) == [(10_000, 20_000, 20_001)]
    assert len(searched) == 2


def test_an_index_in_a_file_is_searched_there() -> None:
    disk = CountingDisk()
    index = index_of(one_after_the_other(20_000), disk)
    write(index, disk)
    disk.read_bytes = 0
    assert collected(index, 20_000, 20_002) == [(10_000, 20_000, 20_001)]
    assert disk.read_bytes < 10_000
    assert not disk.descriptors


def test_an_old_open_transaction_does_not_make_later_reads_look_at_all_that_were_aborted_meanwhile(
    searched: list[int],
) -> None:
    """The stable offset of all entries but the last is where the old transaction began."""
    index = index_of(behind_an_open_transaction(20_000))
    expected = [(-1, 0, 40_001), (10_000, 20_001, 20_002)]
    assert sorted(collected(index, 20_001, 20_003)) == expected
    assert len(searched) <= 3


def test_after_a_restart_each_block_is_read_once(searched: list[int]) -> None:
    disk = SimulatedDisk()
    index = index_of(behind_an_open_transaction(20_000), disk)
    size_bytes = write(index, disk)
    index = TxnIndex(disk, PATH, size_bytes)
    expected = [(-1, 0, 40_001), (0, 1, 2)]
    assert sorted(collected(index, 1, 3)) == expected
    assert len(searched) == -(-20_001 // BLOCK_ENTRIES)
    searched.clear()
    assert sorted(collected(index, 1, 3)) == expected
    assert len(searched) <= 3


@given(st.data())
def test_searches_find_what_a_walk_over_all_entries_finds(data: st.DataObject) -> None:
    disk = SimulatedDisk()
    index = TxnIndex(disk, PATH)
    aborted: list[AbortedTxn] = []
    transactions = Transactions()
    for step in data.draw(st.lists(st.sampled_from(["begin", "abort", "abort", "commit", "write", "reopen", "cut"]))):
        if step == "begin":
            transactions.begin()
        elif step in ("abort", "commit") and transactions.open:
            producer_id = data.draw(st.sampled_from(sorted(transactions.open)))
            txn = transactions.end(producer_id)
            if step == "abort":
                aborted.append(txn)
                index.append(txn)
        elif step == "write":
            write(index, disk)
        elif step == "reopen":
            index = TxnIndex(disk, PATH, write(index, disk))
        elif step == "cut":
            offset = data.draw(st.integers(0, transactions.offset))
            index.truncate_to(offset)
            aborted = [txn for txn in aborted if txn.last_offset < offset]
            transactions = Transactions(offset)
        start = data.draw(st.integers(0, transactions.offset + 1))
        end = data.draw(st.integers(start, transactions.offset + 1))
        for searched in (index, index.copy()):
            found: list[AbortedTxn] = []
            stopped = searched.collect(start, end, found)
            assert found == [txn for txn in aborted if txn.last_offset >= start and txn.first_offset < end]
            assert stopped == any(txn.last_stable_offset >= end for txn in aborted)
        assert index.count == len(aborted)
    data_on_disk = write(index, disk)
    assert data_on_disk == 34 * len(aborted)
    if aborted:
        assert txn_index.decode(disk.read_file(PATH)) == aborted


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data[:33], lambda data: b"\x00\x01" + data[2:]]
)
def test_a_damaged_file_is_refused(change: Callable[[bytes], bytes]) -> None:
    disk = SimulatedDisk()
    data = change(txn_index.encode([AbortedTxn(1, 2, 3, 4)] * 2))
    disk.close(disk.write_new_file(PATH, data))
    index = TxnIndex(disk, PATH, len(data))
    with pytest.raises(StorageError, match="damaged"):
        index.collect(0, 10, [])
    with pytest.raises(StorageError, match="damaged"):
        index.prepare_append()
    assert not disk.descriptors


# -- helpers -------------------------------------------------------------------------------------------------


class CountingDisk(SimulatedDisk):
    read_bytes = 0

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        self.read_bytes += size_bytes
        return super().pread(fd, size_bytes, position)


class Transactions:
    """What is open at an offset."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.open: dict[int, int] = {}

    def begin(self) -> None:
        self.open[self.offset] = self.offset
        self.offset += 1

    def end(self, producer_id: int) -> AbortedTxn:
        first_offset = self.open.pop(producer_id)
        self.offset += 1
        return AbortedTxn(producer_id, first_offset, self.offset - 1, min(self.open.values(), default=self.offset))


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The blocks whose entries a search has looked at."""
    numbers: list[int] = []
    search = TxnIndex._search_block

    def counting(index: TxnIndex, reader: Reader, number: int, start: int, end: int) -> list[AbortedTxn]:
        numbers.append(number)
        return search(index, reader, number, start, end)

    monkeypatch.setattr(TxnIndex, "_search_block", counting)
    return numbers


@pytest.fixture(autouse=True)
def small_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of three entries where any entries are made, so that there are many blocks."""
    if "searches_find" not in request.node.name:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(txn_index, "BLOCK_ENTRIES", 3)
        yield


def one_after_the_other(count: int) -> list[AbortedTxn]:
    return [AbortedTxn(i // 2, i, i + 1, i + 2) for i in range(0, 2 * count, 2)]


def behind_an_open_transaction(count: int) -> list[AbortedTxn]:
    aborted = [AbortedTxn(i // 2, i + 1, i + 2, 0) for i in range(0, 2 * count, 2)]
    return [*aborted, AbortedTxn(-1, 0, 2 * count + 1, 2 * count + 2)]


def index_of(aborted: list[AbortedTxn], disk: Disk | None = None) -> TxnIndex:
    index = TxnIndex(disk or SimulatedDisk(), PATH)
    for txn in aborted:
        index.append(txn)
    return index


def collected(index: TxnIndex, start: int, end: int) -> list[tuple[int, int, int]]:
    found: list[AbortedTxn] = []
    index.collect(start, end, found)
    return [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in found]


def write(index: TxnIndex, disk: Disk) -> int:
    """The size of the file."""
    fd = index.write()
    if fd is None:
        return 0
    try:
        return disk.size_bytes(fd)
    finally:
        disk.close(fd)
