"""What an EndTxn means in every state, for both generations, for the present and the former epoch."""

from __future__ import annotations

from functools import partial

import pytest
from transaction_client import TransactionClients, refusal

from oncelog.broker.coordinator.txn.ends import Verdict, judge_end
from oncelog.broker.coordinator.txn.memory import TransactionMemory
from oncelog.broker.coordinator.txn.requests import EndRequest, InitRequest
from oncelog.broker.coordinator.txn.state import ProducerIdentity, State, Transaction
from oncelog.protocol.errors import ErrorCode, KafkaError

PID = 1000
FENCED = ErrorCode.PRODUCER_FENCED
INVALID = ErrorCode.INVALID_TXN_STATE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
UNMAPPED = ErrorCode.INVALID_PRODUCER_ID_MAPPING
DECIDE, WAIT, REPEAT = Verdict.DECIDE, Verdict.WAIT, Verdict.REPEAT

Expected = Verdict | ErrorCode

VERSION_0: dict[State, tuple[Expected, Expected]] = {
    # state: commit, abort
    State.EMPTY: (INVALID, INVALID),
    State.ONGOING: (DECIDE, DECIDE),
    State.PREPARE_COMMIT: (WAIT, INVALID),
    State.PREPARE_ABORT: (INVALID, WAIT),
    State.COMPLETE_COMMIT: (REPEAT, INVALID),
    State.COMPLETE_ABORT: (INVALID, REPEAT),
}
VERSION_2_PRESENT: dict[State, tuple[Expected, Expected]] = {
    State.EMPTY: (INVALID, DECIDE),
    State.ONGOING: (DECIDE, DECIDE),
    State.PREPARE_COMMIT: (FENCED, FENCED),
    State.PREPARE_ABORT: (FENCED, FENCED),
    State.COMPLETE_COMMIT: (INVALID, DECIDE),
    State.COMPLETE_ABORT: (INVALID, DECIDE),
}
VERSION_2_FORMER: dict[State, tuple[Expected, Expected]] = {
    State.EMPTY: (FENCED, FENCED),
    State.ONGOING: (FENCED, FENCED),
    State.PREPARE_COMMIT: (WAIT, INVALID),
    State.PREPARE_ABORT: (INVALID, WAIT),
    State.COMPLETE_COMMIT: (REPEAT, INVALID),
    State.COMPLETE_ABORT: (INVALID, REPEAT),
}


def judged(
    state: State,
    version: int,
    epoch: int,
    commit: bool,
    memory: TransactionMemory | None = None,
    producer_id: int = PID,
    logged: int | None = None,
) -> Expected:
    """For a transaction of epoch 5, and of the same version unless its record has another."""
    transaction = Transaction("x", PID, 5, 1000, state, client_version=version if logged is None else logged)
    request = EndRequest("x", ProducerIdentity(producer_id, epoch), commit, version)
    try:
        return judge_end(transaction, memory or TransactionMemory(), request)
    except KafkaError as error:
        return error.code


@pytest.mark.parametrize("state", VERSION_0)
@pytest.mark.parametrize("logged", [0, 1])
def test_version_0(state: State, logged: int) -> None:
    """Records of old directories have 1 for the same generation."""
    judged_here = partial(judged, state, 0, logged=logged)
    assert (judged_here(5, True), judged_here(5, False)) == VERSION_0[state]
    assert judged_here(4, True) == judged_here(4, False) == judged_here(6, True) == FENCED


@pytest.mark.parametrize("state", VERSION_2_PRESENT)
def test_version_2(state: State) -> None:
    assert (judged(state, 2, 5, True), judged(state, 2, 5, False)) == VERSION_2_PRESENT[state]
    assert (judged(state, 2, 4, True), judged(state, 2, 4, False)) == VERSION_2_FORMER[state]
    assert judged(state, 2, 3, True) == judged(state, 2, 6, False) == FENCED


BY_VERSION_0_AFTER_VERSION_2: dict[State, tuple[Expected, Expected]] = {
    State.COMPLETE_COMMIT: (REPEAT, INVALID),
    State.COMPLETE_ABORT: (INVALID, REPEAT),
}
BY_VERSION_2_AFTER_VERSION_0: dict[State, tuple[Expected, Expected]] = {
    State.PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    State.PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    State.COMPLETE_COMMIT: (INVALID, DECIDE),
    State.COMPLETE_ABORT: (INVALID, DECIDE),
}


@pytest.mark.parametrize("state", BY_VERSION_0_AFTER_VERSION_2)
def test_version_0_for_what_version_2_has_ended(state: State) -> None:
    """The epoch before names the transaction that has ended. With the present one, it looks like a retry of it."""
    for epoch in (4, 5):
        judged_here = partial(judged, state, 0, epoch, logged=2)
        assert (judged_here(True), judged_here(False)) == BY_VERSION_0_AFTER_VERSION_2[state]


@pytest.mark.parametrize("state", BY_VERSION_2_AFTER_VERSION_0)
def test_version_2_for_what_version_0_has_ended(state: State) -> None:
    """It is never told that its transaction is over, and to go on with the same epoch: it would begin that with
    sequence 0, which the partitions have seen, so that they would take its next records for retries."""
    judged_here = partial(judged, state, 2, 5, logged=0)
    assert (judged_here(True), judged_here(False)) == BY_VERSION_2_AFTER_VERSION_0[state]


@pytest.mark.parametrize("version", [0, 2])
def test_another_producer_id(version: int) -> None:
    for state in VERSION_0:
        assert judged(state, version, 5, True, producer_id=1) == UNMAPPED


@pytest.mark.parametrize("state", [State.PREPARE_ABORT, State.COMPLETE_ABORT])
def test_after_the_timeout(state: State) -> None:
    memory = TransactionMemory()
    memory.bumped(4, timed_out=True)
    abort = WAIT if state == State.PREPARE_ABORT else REPEAT
    assert judged(state, 0, 4, False, memory) == judged(state, 2, 4, False, memory) == abort
    assert judged(state, 0, 4, True, memory) == FENCED
    assert judged(state, 2, 4, True, memory) == ABORTABLE


def test_a_zombie_that_is_just_being_fenced_hears_that_it_is() -> None:
    memory = TransactionMemory()
    memory.waiting = InitRequest("x", 1000)
    assert judged(State.PREPARE_ABORT, 0, 4, True, memory) == FENCED
    assert judged(State.PREPARE_ABORT, 2, 4, True, memory) == FENCED
    # A commit that was decided before the other producer came stands, and its retry may know.
    assert judged(State.PREPARE_COMMIT, 2, 4, True, memory) == WAIT


# -- EndTxn of one transaction that meets the next (KAFKA-17754) ---------------------------------------------


def test_version_1_a_late_end_on_an_older_connection_is_fenced() -> None:
    clients = TransactionClients()
    producer = clients.init(connection=1)
    clients.add(producer, connection=1)
    # The answer does not come; the client connects again, and asks again.
    retry = clients.commit(producer, connection=2)
    clients.write_markers()
    assert retry.reply == producer
    clients.add(producer, connection=2)
    for commit in (True, False):
        assert refusal(lambda commit=commit: clients.end(producer, commit=commit, connection=1)) == FENCED
    assert refusal(lambda: clients.add(producer, ("t", 9), connection=1)) == FENCED
    assert clients.state().state == State.ONGOING


def test_version_1_a_new_connection_takes_over_at_any_time() -> None:
    clients = TransactionClients()
    producer = clients.init(connection=5)
    clients.add(producer, connection=6)
    commit = clients.commit(producer, connection=7)
    clients.write_markers()
    assert commit.reply == producer
    # A producer that starts may well come on a connection that was made before the last one of its predecessor.
    assert clients.init(connection=3) == (PID, 1)
    clients.add(ProducerIdentity(PID, 1), connection=3)


def test_version_2_a_late_end_is_fenced_by_its_epoch_whatever_its_connection() -> None:
    clients = TransactionClients()
    first = clients.init(connection=1)
    second = clients.transact(first, version=2)
    clients.add(second, version=2)
    for commit in (True, False):
        assert refusal(lambda commit=commit: clients.end(first, commit=commit, version=2, connection=9)) == FENCED
    waiting = clients.commit(second, version=2, connection=1)
    clients.write_markers()
    assert waiting.reply == (PID, 2)


def test_version_2_aborts_nothing_with_a_new_epoch() -> None:
    clients = TransactionClients()
    producer = clients.init()
    waiting = clients.abort(producer, version=2)
    assert clients.written == [(State.PREPARE_ABORT, PID, 1)]
    (effect,) = clients.write_markers()
    assert effect.partitions == frozenset()
    assert waiting.reply == (PID, 1)
    assert clients.abort(producer, version=2) == (PID, 1)


def test_unknown_ids() -> None:
    clients = TransactionClients()
    producer = ProducerIdentity(1, 0)
    assert refusal(lambda: clients.commit(producer)) == UNMAPPED
    assert refusal(lambda: clients.commit(producer, transactional_id="")) == ErrorCode.INVALID_REQUEST
