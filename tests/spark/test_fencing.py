"""A new epoch on every generation of brokers: what the broker aborted itself is no takeover, and a takeover is one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.reference import jars
from conformance.reference.kafka import ApacheKafka
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.connection import Connection
from oncelog.client.errors import ConnectionLost
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog.protocol.schema import Message
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.errors import Repeat, TransactionalIdInUse
from oncelog.spark.options import SinkOptions
from oncelog.spark.transaction import CommittedOffset, Transactions
from oncelog.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPIC = "fencing"
OFTEN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="module", params=["oncelog", "transaction.version=1"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Oncelog, and Apache Kafka as it was before 4.0."""
    if request.param != "oncelog" and (reason := jars.missing()) is not None:
        pytest.skip(reason)
    with Broker(config=OFTEN) if request.param == "oncelog" else ApacheKafka(OFTEN, features=[request.param]) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            Admin(cluster).create_topic(TOPIC, partitions=1)
        yield broker.bootstrap_servers


@pytest.fixture
def options(servers: str) -> SinkOptions:
    name = f"fencing-{uuid.uuid4().hex[:8]}"
    return SinkOptions(servers, name, TOPIC, group_id=name)


@pytest.fixture
def cluster(options: SinkOptions) -> Iterator[SinkCluster]:
    with SinkCluster.open(options) as cluster:
        yield cluster


def test_an_open_transaction_is_aborted_by_its_own_driver(cluster: SinkCluster, options: SinkOptions) -> None:
    transactions = Transactions(cluster, options)
    epochs = []
    for _ in range(3):
        epochs.append(transactions.fence().epoch)
        transactions.add_partitions([(TOPIC, 0)])
    assert epochs == sorted(set(epochs))
    commit(transactions, 1)
    assert progress(transactions) == 1


def test_a_transaction_that_ran_into_its_timeout_can_be_repeated(cluster: SinkCluster, options: SinkOptions) -> None:
    transactions = Transactions(cluster, options._replace(transaction_timeout_ms=1000))
    before = transactions.fence()
    with pytest.raises(Repeat):
        go_on_for_ever(transactions)
    assert transactions.fence().epoch > before.epoch


@pytest.mark.parametrize("is_open", [True, False])
def test_a_driver_that_was_replaced_is_told_so(cluster: SinkCluster, options: SinkOptions, is_open: bool) -> None:
    older, newer = Transactions(cluster, options), Transactions(cluster, options)
    older.fence()
    commit(older, 1)
    if is_open:
        older.add_partitions([(TOPIC, 0)])
    newer.fence()
    with pytest.raises(TransactionalIdInUse, match="in use by another query"):
        older.fence()
    commit(newer, 2)
    assert progress(newer) == 2


def test_a_replaced_driver_does_not_replace_the_one_that_works(cluster: SinkCluster, options: SinkOptions) -> None:
    older, newer = Transactions(cluster, options), Transactions(cluster, options)
    older.fence()
    newer.fence()
    newer.add_partitions([(TOPIC, 0)])
    # Before transaction.version 2 the question alone aborts what the newer one has open; it may repeat it.
    with pytest.raises(TransactionalIdInUse, match="in use by another query"):
        older.fence()
    newer.fence()
    commit(newer, 3)
    assert progress(newer) == 3


@pytest.mark.parametrize("refusal", [None, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_who_was_replaced_after_an_unheard_commit_does_not_take_the_id_back(
    cluster: SinkCluster, options: SinkOptions, monkeypatch: pytest.MonkeyPatch, refusal: ErrorCode | None
) -> None:
    """Its next epoch is the other's first one: there was no transaction left to abort when the other began."""
    older, newer = Transactions(cluster, options), Transactions(cluster, options)
    older.fence()
    send, unheard = Connection.send, []

    def send_once_in_vain(connection: Connection, request: Message, response: type[Message], **more: Any) -> Message:
        answer = send(connection, request, response, **more)
        if isinstance(request, EndTxnRequest) and not unheard:
            unheard.append(answer)
            newer.fence()
            if refusal is None:
                raise ConnectionLost("the answer was lost")
            return EndTxnResponse(error_code=refusal)
        return answer

    monkeypatch.setattr(Connection, "send", send_once_in_vain)
    with pytest.raises(Repeat):
        commit(older, 1)
    with pytest.raises(TransactionalIdInUse, match="in use by another query"):
        older.fence()
    commit(newer, 2)
    assert progress(newer) == 2


def go_on_for_ever(transactions: Transactions) -> None:
    while True:
        transactions.add_partitions([(TOPIC, 0)])


def commit(transactions: Transactions, offset: int) -> None:
    transactions.add_partitions([(TOPIC, 0)])
    transactions.commit_offsets({(TOPIC, 0): CommittedOffset(offset, "")})
    transactions.commit()


def progress(transactions: Transactions) -> int:
    """As a driver looks it up: the new epoch waits until the transaction before has ended everywhere."""
    transactions.fence()
    return transactions.committed()[TOPIC, 0].offset
