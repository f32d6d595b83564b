"""The rules of idempotence and fencing, one by one, with Apache Kafka's codes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_helpers import batch_of

from oncelog.broker.log import producer_state
from oncelog.broker.log.producer_state import TRANSACTIONAL, AppendOrigin, CompletedTxn, ProducerState
from oncelog.broker.log.steps import run
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import BatchHeader, read_header

SEQUENCE_MAX = 2**31 - 1


def header(
    sequence: int, count: int = 1, *, producer_id: int = 1, epoch: int = 0, transactional: bool = False
) -> BatchHeader:
    plain = read_header(batch_of(count, producer_id=producer_id, epoch=epoch, sequence=0, transactional=transactional))
    return plain._replace(base_sequence=sequence)


class Log:
    """Just enough of a log to have offsets."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end_offset = 0

    def append(self, head: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT) -> int | None:
        """The offset of a duplicate, or None after appending."""
        duplicate = self.state.find_duplicate(head) if origin == AppendOrigin.CLIENT else None
        if duplicate is not None:
            return duplicate.first_offset
        self.state.check_data_batch(head, origin)
        last = self.end_offset + head.last_offset_delta
        self.state.apply_data_batch(head, self.end_offset, last, head.max_timestamp, 0)
        self.end_offset = last + 1
        return None

    def mark(self, *, commit: bool, producer_id: int = 1, epoch: int = 0, version: int = 0) -> CompletedTxn | None:
        self.state.check_marker(producer_id, epoch, 1, transaction_version=version)
        txn = self.state.apply_marker(
            producer_id, epoch, 1, aborted=not commit, offset=self.end_offset, timestamp=0, now_ms=0
        )
        if txn is not None:
            self.state.complete(txn)
        self.end_offset += 1
        return txn


def refused(log: Log, head: BatchHeader) -> ErrorCode:
    before = log.state.state()
    with pytest.raises(KafkaError) as raised:
        log.append(head)
    assert log.state.state() == before
    return raised.value.code


def test_the_next_sequence_is_accepted_and_a_gap_is_not() -> None:
    log = Log()
    log.append(header(0, 3))
    log.append(header(3, 2))
    assert refused(log, header(6)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, header(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append(header(5))


def test_the_last_five_batches_again_get_their_offsets() -> None:
    log = Log()
    for sequence in range(8):
        log.append(header(sequence))
    end = log.end_offset
    for sequence in range(3, 8):
        assert log.append(header(sequence)) == sequence
    assert log.end_offset == end
    assert refused(log, header(2)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    # Overlapping but not equal is no duplicate.
    assert refused(log, header(7, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_sequence_is_only_called_a_duplicate_if_it_was_seen() -> None:
    log = Log()
    for sequence in range(10, 17):
        log.append(header(sequence))
    assert refused(log, header(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap() -> None:
    log = Log()
    log.append(header(SEQUENCE_MAX - 1, 2))
    log.append(header(0, 2))
    assert log.append(header(SEQUENCE_MAX - 1, 2)) == 0
    log.append(header(2))
    other = Log()
    other.append(header(SEQUENCE_MAX, 3))
    assert other.state.entries[1].last_sequence == 1
    other.append(header(2))


def test_an_unknown_producer_may_start_anywhere() -> None:
    log = Log()
    log.append(header(1000, epoch=3))
    log.append(header(1001, epoch=3))


def test_epochs_fence() -> None:
    log = Log()
    log.append(header(0, epoch=1))
    assert refused(log, header(1, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, header(1, epoch=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append(header(0, epoch=2))
    assert refused(log, header(1, epoch=1)) == ErrorCode.INVALID_PRODUCER_EPOCH
    log.append(header(1, epoch=2))


def test_a_plain_write_in_an_open_transaction_is_refused() -> None:
    log = Log()
    log.append(header(0, transactional=True))
    assert refused(log, header(1)) == ErrorCode.INVALID_TXN_STATE
    log.append(header(1, transactional=True))
    log.mark(commit=True)
    log.append(header(2))


def test_a_coordinator_writes_without_sequences() -> None:
    log = Log()
    for _ in range(3):
        log.append(header(-1, 2, transactional=True), AppendOrigin.COORDINATOR)
    assert log.end_offset == 6
    with pytest.raises(KafkaError) as raised:
        log.append(header(-1, epoch=-1), AppendOrigin.COORDINATOR)
    assert raised.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_markers_are_fenced() -> None:
    log = Log()
    log.append(header(0, epoch=5, transactional=True))
    with pytest.raises(KafkaError) as raised:
        log.mark(commit=True, epoch=4)
    assert raised.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    log.mark(commit=True, epoch=5)
    log.state.entries[1].coordinator_epoch = 9
    with pytest.raises(KafkaError) as raised:
        log.mark(commit=True, epoch=5)
    assert raised.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_of_version_2_has_a_new_epoch() -> None:
    log = Log()
    log.append(header(0, epoch=5, transactional=True))
    with pytest.raises(KafkaError) as raised:
        log.mark(commit=True, epoch=5, version=2)
    assert raised.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.mark(commit=True, epoch=6, version=2) == CompletedTxn(1, 0, 1, False)
    # The same marker again, after the answer was lost.
    assert log.mark(commit=True, epoch=6, version=2) is None
    log.append(header(0, epoch=6, transactional=True))
    at_the_end = Log()
    at_the_end.append(header(0, epoch=2**15 - 1, transactional=True))
    assert at_the_end.mark(commit=False, epoch=2**15 - 1, version=2) is not None


def test_a_marker_without_data_ends_nothing() -> None:
    log = Log()
    assert log.mark(commit=False) is None
    assert log.state.first_unstable_offset == -1


def test_sequences_go_on_after_a_marker_of_the_same_epoch() -> None:
    log = Log()
    log.append(header(0, 2, transactional=True))
    log.mark(commit=True)
    assert log.append(header(0, 2, transactional=True)) == 0
    log.append(header(2, transactional=True))


def test_first_unstable_offset() -> None:
    log = Log()
    log.append(header(0, producer_id=1, transactional=True))
    log.append(header(0, producer_id=2, transactional=True))
    assert log.state.first_unstable_offset == 0
    txn = log.mark(commit=False, producer_id=1)
    assert txn is not None
    assert log.state.first_unstable_offset == 0, "the marker is not replicated"
    log.state.on_high_watermark(2)
    assert log.state.first_unstable_offset == 0
    log.state.on_high_watermark(3)
    assert log.state.first_unstable_offset == 1
    log.mark(commit=True, producer_id=2)
    log.state.on_high_watermark(4)
    assert log.state.first_unstable_offset == -1


def test_expiry_goes_by_our_clock_and_spares_open_transactions() -> None:
    state = ProducerState()
    old_records = header(0)._replace(max_timestamp=0)
    state.apply_data_batch(old_records, 0, 0, 0, now_ms=1000)
    state.apply_data_batch(header(0, producer_id=2, transactional=True), 1, 1, 0, now_ms=0)
    run(state.expire(1499, 500))
    assert set(state.entries) == {1, 2}
    run(state.expire(1500, 500))
    assert set(state.entries) == {2}


class TestVerification:
    def test_a_transaction_needs_its_guard(self) -> None:
        state = ProducerState()
        first = header(0, transactional=True)
        with pytest.raises(KafkaError) as raised:
            state.check_verified(first, None)
        assert raised.value.code == ErrorCode.INVALID_TXN_STATE
        guard = state.begin_verification(1, 0, 0, supports_epoch_bump=False, now_ms=0)
        assert guard is state.begin_verification(1, 0, 0, supports_epoch_bump=False, now_ms=0)
        state.check_verified(first, guard)
        state.apply_data_batch(first, 0, 0, 0, 0)
        assert state.begin_verification(1, 1, 0, supports_epoch_bump=False, now_ms=0) is None
        state.check_verified(header(1, transactional=True), None)

    def test_a_marker_voids_the_guard(self) -> None:
        state = ProducerState()
        guard = state.begin_verification(1, 0, 0, supports_epoch_bump=False, now_ms=0)
        state.apply_marker(1, 0, 0, aborted=True, offset=0, timestamp=0, now_ms=0)
        with pytest.raises(KafkaError) as raised:
            state.check_verified(header(0, transactional=True), guard)
        assert raised.value.code == ErrorCode.INVALID_TXN_STATE

    def test_a_zombie_is_fenced_and_not_told_to_retry(self) -> None:
        state = ProducerState()
        state.apply_marker(1, 5, 0, aborted=True, offset=0, timestamp=0, now_ms=0)
        with pytest.raises(KafkaError) as raised:
            state.check_verified(header(0, epoch=4, transactional=True), None)
        assert raised.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        with pytest.raises(KafkaError) as raised:
            state.begin_verification(1, 0, 4, supports_epoch_bump=False, now_ms=0)
        assert raised.value.code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_a_later_batch_does_not_overtake(self) -> None:
        state = ProducerState()
        state.begin_verification(1, 5, 0, supports_epoch_bump=False, now_ms=0)
        state.begin_verification(1, 3, 0, supports_epoch_bump=False, now_ms=0)
        with pytest.raises(KafkaError) as raised:
            state.check_data_batch(header(5, transactional=True), AppendOrigin.CLIENT)
        assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        state.check_data_batch(header(3, transactional=True), AppendOrigin.CLIENT)
        state.begin_verification(1, 4, 1, supports_epoch_bump=False, now_ms=0)
        state.check_data_batch(header(4, epoch=1, transactional=True), AppendOrigin.CLIENT)

    def test_version_2_starts_at_zero(self) -> None:
        state = ProducerState()
        state.begin_verification(1, 5, 0, supports_epoch_bump=True, now_ms=0)
        with pytest.raises(KafkaError) as raised:
            state.check_data_batch(header(5, transactional=True), AppendOrigin.CLIENT)
        assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_forgotten_verifications_expire(self) -> None:
        state = ProducerState()
        guard = state.begin_verification(1, 0, 0, supports_epoch_bump=False, now_ms=0)
        run(state.expire(10, 11))
        assert state.verification.is_verified(1, guard)
        run(state.expire(11, 11))
        assert not state.verification.is_verified(1, guard)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 30), st.integers(1, 4))))
def test_no_history_has_a_duplicate_or_a_gap(attempts: list[tuple[int, int, int, int]]) -> None:
    """Whatever is sent, what is accepted is in sequence per producer and epoch, and epochs only rise."""
    log = Log()
    accepted: list[tuple[int, int, int, int]] = []
    for producer_id, epoch, sequence, count in attempts:
        before = log.end_offset
        try:
            log.append(header(sequence, count, producer_id=producer_id, epoch=epoch))
        except KafkaError:
            assert log.end_offset == before
            continue
        if log.end_offset > before:
            accepted.append((producer_id, epoch, sequence, count))
    for producer_id in {1, 2, 3}:
        mine = [batch[1:] for batch in accepted if batch[0] == producer_id]
        for (epoch, sequence, count), (next_epoch, next_sequence, _) in pairwise(mine):
            assert next_epoch >= epoch
            assert next_sequence == (sequence + count if next_epoch == epoch else 0)


class CountedOffset(int):
    """An offset that counts how often any of them is compared."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        CountedOffset.comparisons += 1
        return int(self) < int(other)


def test_the_first_unstable_offset_does_not_depend_on_how_many_markers_wait_for_the_high_watermark() -> None:
    state = ProducerState()
    count = 1000
    for i in range(count):
        state.apply_data_batch(header(0, producer_id=i, transactional=True), CountedOffset(i), i, 0, 0)
    CountedOffset.comparisons = 0
    for i in range(count):
        marker = state.apply_marker(i, 0, 1, aborted=True, offset=count + i, timestamp=0, now_ms=0)
        assert marker is not None
        state.complete(marker)
        assert state.first_unstable_offset == 0
    assert CountedOffset.comparisons <= count
    state.on_high_watermark(count + 500)
    assert state.first_unstable_offset == 500


@given(st.lists(st.tuples(st.sampled_from(["begin", "abort", "commit", "replicate", "restore"]), st.integers(0, 5))))
def test_the_first_unstable_offset_is_that_of_the_oldest_transaction(steps: list[tuple[str, int]]) -> None:
    log = Log()
    unstable: dict[int, int | None] = {}
    """First offset of each transaction to that of its marker."""
    for step, producer_id in steps:
        entry = log.state.entries.get(producer_id)
        is_open = entry is not None and entry.txn_first_offset >= 0
        if step == "begin" and not is_open:
            unstable[log.end_offset] = None
            log.append(header(entry.last_sequence + 1 if entry else 0, producer_id=producer_id, transactional=True))
        elif step in ("abort", "commit") and is_open:
            txn = log.mark(commit=step == "commit", producer_id=producer_id)
            assert txn is not None
            unstable[txn.first_offset] = txn.last_offset
        elif step == "replicate":
            high_watermark = log.end_offset - producer_id
            log.state.on_high_watermark(high_watermark)
            unstable = {first: last for first, last in unstable.items() if last is None or last >= high_watermark}
        elif step == "restore":
            log.state.load(list(log.state.entries.values()), 0)
            unstable = {first: last for first, last in unstable.items() if last is None}
        assert log.state.first_unstable_offset == min(unstable, default=-1)
        assert list(log.state.ongoing) == sorted(first for first, last in unstable.items() if last is None)


def test_producers_expire_in_steps_and_those_that_write_meanwhile_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "_EXPIRED_AT_ONCE", 10)
    state = ProducerState()
    for producer_id in range(100):
        state.apply_data_batch(header(0, producer_id=producer_id), producer_id, producer_id, 0, 0)
    before = len(state.entries)
    for step in state.expire(1000, 500):
        assert step is None
        assert before - len(state.entries) <= 10
        before = len(state.entries)
        if before == 50:
            state.apply_data_batch(header(1, producer_id=77), 100, 100, 0, 1000)
            state.apply_data_batch(header(0, producer_id=100), 101, 101, 0, 1000)
        assert sorted(state.entries) == sorted(entry.producer_id for entry in state.slots)
        assert all(state.slots[entry.slot] is entry for entry in state.slots)
    assert state.entries.keys() == {77, 100}


def test_whoever_goes_through_the_producers_misses_none_that_stays() -> None:
    state = ProducerState()
    for producer_id in range(20):
        state.apply_data_batch(
            header(0, producer_id=producer_id), producer_id, producer_id, 0, 1000 * (producer_id % 2)
        )
    found = []
    for entry in state.iterate():
        found.append(entry.producer_id)
        if len(found) == 5:
            run(state.expire(1000, 500))
        if len(found) == 8:
            state.apply_data_batch(header(0, producer_id=20), 20, 20, 0, 1000)
    assert set(range(1, 20, 2)) <= set(found)
    state.load([], 0)
    assert list(state.iterate()) == []


def test_attributes_other_than_that_of_a_transaction_begin_none() -> None:
    """A compressed batch of an idempotent producer must not hold back readers of committed records."""
    log = Log()
    plain = header(0)
    assert not plain.attributes & TRANSACTIONAL
    for attributes in range(TRANSACTIONAL):
        log.append(plain._replace(attributes=attributes, base_sequence=log.end_offset))
        assert log.state.first_unstable_offset == -1
    log.append(header(log.end_offset, transactional=True))
    assert log.state.first_unstable_offset == TRANSACTIONAL
