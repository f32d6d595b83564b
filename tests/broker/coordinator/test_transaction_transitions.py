"""The end of a producer id's epochs, in every way that leads there."""

from __future__ import annotations

import pytest
from transaction_client import FIRST_PRODUCER_ID, TIMEOUT_MS, TransactionClients, refusal

from oncelog.broker.coordinator.txn.state import (
    EPOCH_LAST_OF_CLIENTS,
    EPOCH_MAX,
    TRANSITIONS,
    ProducerIdentity,
    State,
)
from oncelog.broker.coordinator.txn.transitions import complete, decide
from oncelog.protocol.errors import ErrorCode

OLD, NEW = FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 1
LAST = ProducerIdentity(OLD, EPOCH_LAST_OF_CLIENTS)


@pytest.fixture
def clients() -> TransactionClients:
    """With a producer that has the last epoch."""
    clients = TransactionClients()
    clients.init()
    clients.set_epoch(EPOCH_LAST_OF_CLIENTS)
    return clients


def test_init_rotates_the_producer_id(clients: TransactionClients) -> None:
    assert clients.init() == (NEW, 0)
    assert clients.state().previous_producer_id == OLD
    assert refusal(lambda: clients.init(expected=LAST)) == ErrorCode.PRODUCER_FENCED


def test_init_with_the_last_identity_rotates_and_its_retry_gets_the_same(clients: TransactionClients) -> None:
    assert clients.init(expected=LAST) == (NEW, 0)
    assert clients.init(expected=LAST) == (NEW, 0)
    # Another producer comes; the former one has lost the id for good.
    assert clients.init() == (NEW, 1)
    assert refusal(lambda: clients.init(expected=LAST)) == ErrorCode.PRODUCER_FENCED


def test_version_1_uses_its_last_epoch_for_as_long_as_it_likes(clients: TransactionClients) -> None:
    for _ in range(3):
        assert clients.transact(LAST) == LAST


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restart", [False, True])
def test_version_2_goes_on_with_a_new_id_after_its_last_end(
    clients: TransactionClients, commit: bool, restart: bool
) -> None:
    clients.add(LAST, version=2)
    clients.end(LAST, commit=commit, version=2)
    assert clients.written[0][1:] == (OLD, EPOCH_MAX)
    if restart:
        clients.restart()
    retry = clients.end(LAST, commit=commit, version=2)
    (effect,) = clients.write_markers()
    assert (effect.producer_id, effect.producer_epoch) == (OLD, EPOCH_MAX)
    assert retry.reply == (NEW, 0)
    if restart:
        clients.restart()
    assert clients.end(LAST, commit=commit, version=2) == (NEW, 0)
    assert clients.transact(ProducerIdentity(NEW, 0), version=2) == (NEW, 1)
    assert refusal(lambda: clients.end(LAST, commit=commit, version=2)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [0, 2])
def test_after_a_timeout_with_the_last_epoch_nobody_gets_the_one_behind_it(
    clients: TransactionClients, version: int
) -> None:
    clients.add(LAST, version=version)
    clients.advance(TIMEOUT_MS)
    assert clients.written == [(State.PREPARE_ABORT, OLD, EPOCH_MAX)]
    clients.write_markers()
    assert clients.written == [(State.COMPLETE_ABORT, NEW, 0)]
    assert clients.abort(LAST, version=version) == (NEW, 0)
    assert clients.init(expected=LAST) == (NEW, 0)


def test_fencing_a_producer_with_the_last_epoch(clients: TransactionClients) -> None:
    clients.add(LAST)
    waiting = clients.init()
    clients.write_markers()
    assert clients.written == [(State.COMPLETE_ABORT, NEW, 0), (State.EMPTY, NEW, 1)]
    assert waiting.reply == (NEW, 1)


def test_fencing_a_producer_with_the_epoch_before_the_last(clients: TransactionClients) -> None:
    producer = clients.set_epoch(EPOCH_LAST_OF_CLIENTS - 1)
    clients.add(producer)
    waiting = clients.init()
    clients.write_markers()
    assert clients.written == [(State.COMPLETE_ABORT, *LAST), (State.EMPTY, NEW, 0)]
    assert waiting.reply == (NEW, 0)


def test_transitions_that_the_table_does_not_have_are_our_bugs(clients: TransactionClients) -> None:
    empty = clients.state()
    with pytest.raises(AssertionError, match="from EMPTY to PREPARE_COMMIT"):
        decide(empty, State.PREPARE_COMMIT, 1, 0, -1)
    with pytest.raises(AssertionError, match="from EMPTY to COMPLETE_ABORT"):
        complete(empty, None, 0)
    assert all(TRANSITIONS.keys() >= followers for followers in TRANSITIONS.values())
