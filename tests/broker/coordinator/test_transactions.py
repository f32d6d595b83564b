"""The transaction coordinator: request in, time passes, exact reply and exact records out."""

from __future__ import annotations

import pytest
from simulated_shard import STEADY_MS, WALL_MS
from transaction_client import FIRST_PRODUCER_ID, T0, T1, TIMEOUT_MS, TransactionClients, code_of, refusal

from oncelog.broker.coordinator.contract import CoordinatorRecord
from oncelog.broker.coordinator.txn.coordinator import EXPIRED_AT_ONCE_MAX
from oncelog.broker.coordinator.txn.requests import TransactionSettings, WriteMarkers
from oncelog.broker.coordinator.txn.state import ProducerIdentity, State
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

PID = FIRST_PRODUCER_ID
HOUR_MS = 3_600_000


@pytest.fixture
def clients() -> TransactionClients:
    return TransactionClients()


# -- InitProducerId ------------------------------------------------------------------------------------------


def test_first_init_gives_a_fresh_id_and_writes_it_down(clients: TransactionClients) -> None:
    assert clients.init() == ProducerIdentity(PID, 0)
    assert clients.appended == [
        CoordinatorRecord(
            TransactionLogKey(transactional_id="x"),
            TransactionLogValue(
                producer_id=PID,
                producer_epoch=0,
                transaction_timeout_ms=TIMEOUT_MS,
                transaction_status=State.EMPTY,
                transaction_partitions=None,
                transaction_last_update_timestamp_ms=WALL_MS,
                transaction_start_timestamp_ms=-1,
            ),
            1,
        )
    ]


def test_every_further_init_bumps_the_epoch(clients: TransactionClients) -> None:
    assert [clients.init() for _ in range(3)] == [(PID, 0), (PID, 1), (PID, 2)]
    assert clients.init("other") == (PID + 1, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_init_with_a_timeout_out_of_range_is_refused(clients: TransactionClients, timeout_ms: int) -> None:
    assert refusal(lambda: clients.init(timeout_ms=timeout_ms)) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert refusal(lambda: clients.init("")) == ErrorCode.INVALID_REQUEST


def test_init_waits_until_what_its_predecessor_left_open_is_aborted(clients: TransactionClients) -> None:
    clients.add(clients.init(), T0, T1)
    waiting = clients.init(timeout_ms=5000)
    assert clients.written == [(State.PREPARE_ABORT, PID, 1)]
    assert clients.effects == [WriteMarkers("x", PID, 1, False, frozenset((T0, T1)), 0)]
    assert not waiting.done
    clients.write_markers()
    assert waiting.reply == (PID, 2)
    assert clients.written == [(State.COMPLETE_ABORT, PID, 1), (State.EMPTY, PID, 2)]
    assert clients.state().timeout_ms == 5000
    assert clients.timers.keys() == {("expire",)}


def test_of_two_waiting_inits_the_later_gets_the_id(clients: TransactionClients) -> None:
    clients.add(clients.init())
    first, second = clients.init(), clients.init()
    assert code_of(first.reply) == ErrorCode.CONCURRENT_TRANSACTIONS
    clients.write_markers()
    assert second.reply == (PID, 2)


def test_init_during_a_commit_waits_for_its_end_and_changes_nothing_about_it(clients: TransactionClients) -> None:
    producer = clients.init()
    clients.add(producer)
    commit = clients.commit(producer)
    init = clients.init()
    assert clients.appended == []
    clients.write_markers()
    assert commit.reply == (PID, 0)
    assert init.reply == (PID, 1)
    assert clients.written == [(State.COMPLETE_COMMIT, PID, 0), (State.EMPTY, PID, 1)]


# -- recovery of a producer that knows who it is (KIP-360) ---------------------------------------------------


def test_init_with_the_present_identity_bumps_and_its_retry_gets_the_same(clients: TransactionClients) -> None:
    producer = clients.init()
    assert clients.init(expected=producer) == (PID, 1)
    assert clients.init(expected=producer) == (PID, 1)
    clients.add(ProducerIdentity(PID, 1))
    assert refusal(lambda: clients.init(expected=producer)) == ErrorCode.PRODUCER_FENCED


def test_init_with_an_old_identity_is_fenced_and_disturbs_nobody(clients: TransactionClients) -> None:
    zombie = clients.init()
    owner = clients.init()
    clients.add(owner)
    for expected in (zombie, ProducerIdentity(PID + 7, 1)):
        assert refusal(lambda expected=expected: clients.init(expected=expected)) == ErrorCode.PRODUCER_FENCED
    assert clients.state().state == State.ONGOING
    commit = clients.commit(owner)
    assert refusal(lambda: clients.init(expected=zombie)) == ErrorCode.PRODUCER_FENCED
    clients.write_markers()
    assert commit.reply == owner


def test_a_zombie_cannot_take_the_id_from_one_who_waits_for_it(clients: TransactionClients) -> None:
    zombie = clients.init()
    clients.add(zombie)
    owner = clients.init()
    assert refusal(lambda: clients.init(expected=zombie)) == ErrorCode.PRODUCER_FENCED
    clients.write_markers()
    assert owner.reply == (PID, 2)


def test_init_with_the_present_identity_and_an_open_transaction_aborts_it(clients: TransactionClients) -> None:
    producer = clients.init()
    clients.add(producer)
    waiting = clients.init(expected=producer)
    clients.write_markers()
    assert waiting.reply == (PID, 1)


def test_init_with_an_identity_of_a_forgotten_id_starts_anew(clients: TransactionClients) -> None:
    assert clients.init(expected=ProducerIdentity(7, 3)) == (PID, 0)


# -- partitions ----------------------------------------------------------------------------------------------


def test_first_partitions_begin_the_transaction_and_its_clock(clients: TransactionClients) -> None:
    producer = clients.init()
    clients.advance(500)
    clients.add(producer, T0)
    assert clients.appended[0].value == TransactionLogValue(
        producer_id=PID,
        producer_epoch=0,
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_status=State.ONGOING,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0])],
        transaction_last_update_timestamp_ms=WALL_MS + 500,
        transaction_start_timestamp_ms=WALL_MS + 500,
        client_transaction_version=0,
    )
    clients.advance(100)
    clients.add(producer, T1)
    assert clients.state().partitions == {T0, T1}
    assert clients.state().started_ms == WALL_MS + 500
    assert clients.timers["timeout", "x"] == STEADY_MS + 500 + TIMEOUT_MS


def test_partitions_that_are_in_already_write_nothing(clients: TransactionClients) -> None:
    producer = clients.init()
    clients.add(producer, T0, T1)
    clients.add(producer, T1)
    assert clients.appended == []


def test_partitions_of_a_stranger_are_refused(clients: TransactionClients) -> None:
    producer = clients.init()
    clients.init()
    assert refusal(lambda: clients.add(producer)) == ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: clients.add(ProducerIdentity(1, 1))) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    other = refusal(lambda: clients.add(producer, transactional_id="nobody"))
    assert other == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: clients.add(producer, transactional_id="")) == ErrorCode.INVALID_REQUEST


def test_partitions_have_to_wait_for_the_end_of_the_former_transaction(clients: TransactionClients) -> None:
    producer = clients.init()
    clients.add(producer)
    clients.commit(producer)
    assert refusal(lambda: clients.add(producer)) == ErrorCode.CONCURRENT_TRANSACTIONS
    clients.write_markers()
    clients.add(producer, T1)
    assert clients.state().partitions == {T1}


def test_verification_sees_the_partitions_of_the_open_transaction_only(clients: TransactionClients) -> None:
    producer = clients.init()

    def partitions() -> set[tuple[str, int]]:
        return set(clients.coordinator.verify_producer("x", producer).partitions)

    assert partitions() == set()
    clients.add(producer, T0)
    assert partitions() == {T0}
    clients.commit(producer)
    assert refusal(partitions) == ErrorCode.CONCURRENT_TRANSACTIONS
    clients.write_markers()
    assert partitions() == set()
    clients.init()
    assert refusal(partitions) == ErrorCode.PRODUCER_FENCED


# -- the end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_decided_then_marked_then_answered(clients: TransactionClients, commit: bool) -> None:
    producer = clients.init()
    clients.add(producer)
    waiting = clients.end(producer, commit=commit)
    assert clients.written == [(State.PREPARE_COMMIT if commit else State.PREPARE_ABORT, PID, 0)]
    assert clients.timers.keys() == {("expire",)}
    assert not waiting.done
    assert clients.write_markers() == [WriteMarkers("x", PID, 0, commit, frozenset((T0,)), 0)]
    assert waiting.reply == (PID, 0)
    assert clients.written == [(State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT, PID, 0)]
    assert clients.state().partitions == frozenset()


@pytest.mark.parametrize("commit", [True, False])
def test_version_2_gets_its_next_epoch_with_the_end(clients: TransactionClients, commit: bool) -> None:
    producer = clients.init()
    clients.add(producer, version=2)
    waiting = clients.end(producer, commit=commit, version=2)
    assert clients.written == [(State.PREPARE_COMMIT if commit else State.PREPARE_ABORT, PID, 1)]
    assert clients.write_markers() == [WriteMarkers("x", PID, 1, commit, frozenset((T0,)), 2)]
    assert waiting.reply == (PID, 1)


def test_a_retry_takes_the_place_of_the_request_that_waits(clients: TransactionClients) -> None:
    producer = clients.init()
    clients.add(producer)
    first, retry = clients.commit(producer), clients.commit(producer)
    assert code_of(first.reply) == ErrorCode.CONCURRENT_TRANSACTIONS
    clients.write_markers()
    assert retry.reply == producer


def test_markers_that_come_twice_end_nothing_else(clients: TransactionClients) -> None:
    producer = clients.init()
    clients.add(producer)
    clients.commit(producer)
    (effect,) = clients.write_markers()
    clients.add(producer)
    assert not clients.coordinator.awaits(effect)
    clients.appended = []
    clients.markers_written(effect)
    assert clients.appended == []
    assert clients.state().state == State.ONGOING


# -- time ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_is_aborted_with_a_new_epoch_at_its_timeout(
    clients: TransactionClients, version: int
) -> None:
    producer = clients.init()
    clients.add(producer, version=version)
    clients.advance(TIMEOUT_MS - 1)
    assert clients.appended == []
    clients.advance(1)
    assert clients.written == [(State.PREPARE_ABORT, PID, 1)]
    assert clients.write_markers() == [WriteMarkers("x", PID, 1, False, frozenset((T0,)), version)]
    assert clients.written == [(State.COMPLETE_ABORT, PID, 1)]
    with_old_epoch = refusal(lambda: clients.add(producer, version=version))
    assert with_old_epoch == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("restart", [False, True])
def test_a_version_1_producer_recovers_from_the_timeout(clients: TransactionClients, restart: bool) -> None:
    """It is told INVALID_PRODUCER_EPOCH by a partition, aborts, and asks for a new epoch (KIP-588)."""
    producer = clients.init()
    clients.add(producer)
    clients.advance(TIMEOUT_MS)
    assert refusal(lambda: clients.commit(producer)) == ErrorCode.PRODUCER_FENCED
    if restart:
        clients.restart()
    abort = clients.abort(producer)
    assert not abort.done
    clients.write_markers()
    assert abort.reply == (PID, 1)
    assert clients.abort(producer) == (PID, 1)
    recovered = clients.init(expected=producer)
    assert recovered == (PID, 1)
    assert clients.transact(recovered) == (PID, 1)


def test_a_version_2_producer_recovers_from_the_timeout(clients: TransactionClients) -> None:
    """Its commit is refused in a way that lets it abort, and the abort tells it the new epoch."""
    producer = clients.init()
    clients.add(producer, version=2)
    clients.advance(TIMEOUT_MS)
    clients.write_markers()
    assert refusal(lambda: clients.commit(producer, version=2)) == ErrorCode.TRANSACTION_ABORTABLE
    recovered = clients.abort(producer, version=2)
    assert recovered == (PID, 1)
    assert clients.transact(recovered, version=2) == (PID, 2)


def test_idle_ids_expire_with_a_tombstone(clients: TransactionClients) -> None:
    clients = TransactionClients(TransactionSettings(expiration_ms=10 * HOUR_MS))
    clients.init()
    busy = clients.init("busy", timeout_ms=900_000)
    clients.advance(9 * HOUR_MS)
    clients.add(busy, transactional_id="busy")
    clients.advance(HOUR_MS)
    tombstones = [record for record in clients.appended if record.value is None]
    assert tombstones == [CoordinatorRecord(TransactionLogKey(transactional_id="x"), None)]
    assert refusal(lambda: clients.state()) == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert clients.init() == (PID + 2, 0)


def test_many_ids_expire_in_several_batches() -> None:
    clients = TransactionClients(TransactionSettings(expiration_ms=HOUR_MS))
    total = EXPIRED_AT_ONCE_MAX + 5
    for number in range(total):
        clients.init(f"id-{number}")
    clients.advance(HOUR_MS)
    assert len(clients.appended) == total
    assert list(clients.coordinator.transactions()) == []


# -- restart -------------------------------------------------------------------------------------------------


def test_a_restart_rebuilds_exactly_what_was_there(clients: TransactionClients) -> None:
    clients.transact(clients.init())
    producer = clients.init("b")
    clients.add(producer, T0, T1, version=2, transactional_id="b")
    clients.advance(10)
    clients.init("c")
    before = list(clients.coordinator.transactions())
    clients.restart()
    assert list(clients.coordinator.transactions()) == before


def test_after_a_restart_the_clock_of_an_open_transaction_goes_on(clients: TransactionClients) -> None:
    clients.add(clients.init())
    clients.advance(TIMEOUT_MS // 2)
    clients.restart()
    clients.advance(TIMEOUT_MS // 2 - 1)
    assert clients.state().state == State.ONGOING
    clients.advance(1)
    assert clients.state().state == State.PREPARE_ABORT


def test_a_clock_that_was_set_back_does_not_lengthen_the_timeout(clients: TransactionClients) -> None:
    clients.add(clients.init())
    clients.set_wall_clock(-10 * HOUR_MS)
    clients.restart()
    clients.advance(TIMEOUT_MS)
    assert clients.state().state == State.PREPARE_ABORT


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_after_a_restart_what_was_decided_is_done(clients: TransactionClients, version: int, commit: bool) -> None:
    producer = clients.init()
    clients.add(producer, T0, T1, version=version)
    clients.end(producer, commit=commit, version=version)
    (before,) = clients.effects
    clients.restart()
    assert clients.effects == [before]
    retry = clients.end(producer, commit=commit, version=version)
    clients.write_markers()
    assert retry.reply == (PID, version // 2)
    clients.restart()
    assert clients.effects == []
    assert clients.end(producer, commit=commit, version=version) == (PID, version // 2)
    opposite = refusal(lambda: clients.end(producer, commit=not commit, version=version))
    assert opposite == ErrorCode.INVALID_TXN_STATE


# -- directories of before, in which clients of the older generation have version 1 ---------------------------


def write_old(clients: TransactionClients, state: State) -> ProducerIdentity:
    """A restart on a directory whose last record is such a one; the producer that it is of."""
    producer = clients.init()
    clients.add(producer, T0)
    clients.write(clients.state()._replace(state=state, client_version=1))
    clients.restart()
    assert clients.state().client_version == 1
    return ProducerIdentity(*producer)


@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_of_version_1_is_ended_by_its_client(clients: TransactionClients, commit: bool) -> None:
    producer = write_old(clients, State.ONGOING)
    clients.add(producer, T1)
    waiting = clients.end(producer, commit=commit)
    assert clients.write_markers() == [WriteMarkers("x", PID, 0, commit, frozenset((T0, T1)), 0)]
    assert waiting.reply == producer
    assert clients.transact(producer) == producer


def test_an_open_transaction_of_version_1_times_out(clients: TransactionClients) -> None:
    producer = write_old(clients, State.ONGOING)
    clients.advance(TIMEOUT_MS)
    assert clients.written == [(State.PREPARE_ABORT, PID, 1)]
    clients.write_markers()
    assert refusal(lambda: clients.add(producer)) == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_of_version_1_is_done_without_another_epoch(clients: TransactionClients, commit: bool) -> None:
    producer = write_old(clients, State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
    retry = clients.end(producer, commit=commit)
    assert clients.write_markers() == [WriteMarkers("x", PID, 0, commit, frozenset((T0,)), 1)]
    assert clients.written == [(State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT, PID, 0)]
    assert retry.reply == producer
    assert clients.transact(producer) == producer
