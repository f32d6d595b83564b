"""Transactions in sequence: begin, produce one or a hundred records, commit.

confluent-kafka registers each partition with a request of its own (the first generation of transactions), Java's client
leaves that to the broker (the second, KIP-890).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import Producer

from bench.case import Case, Work, numbers
from bench.clients import confluent
from bench.clients.java_transactions import JavaTransactions, OvertakenError
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.stats import latency_sample
from bench.warmup import TRANSACTIONS, warm_up_transactions

CLIENTS = {"confluent": "confluent-kafka", "java": "Java's client"}
PEERS = ("kafka", "kafka-fsync", "oncelog", "oncelog-fsync", "kfake")
_VALUE = bytes(100)
# The first of a topic bring its metadata.
_FIRST = 10
# About what the warm-up takes, over all peers, for the budget; the first case of a run has it.
_PEER_WARMUP_S = 10.0


class TransactionsCase(Case):
    headline = "transactions_per_s"
    seconds_factor = 2.0
    client: str

    def __init__(self, records: int, peer_warmup: int = TRANSACTIONS) -> None:
        super().__init__(f"of {records}, {CLIENTS[self.client]}", PEERS, records=records, client=self.client)
        self._records = records
        self._peer_warmup = peer_warmup

    def prepare(self, peer: Peer, seconds: float) -> None:
        warm_up_transactions(peer, self._peer_warmup)

    @contextmanager
    def _topic(self, peer: Peer, turn: object) -> Iterator[str]:
        with confluent.topic(peer, f"transactions-of-{self._records}-{self.client}-{turn}", 1) as topic:
            yield topic

    @property
    def _transactional_id(self) -> str:
        return f"bench-{self._records}-{self.client}"

    def _sample(self, meter: Meter, latencies_s: Sequence[float]) -> Sample:
        count = len(latencies_s)
        return meter.sample(transactions=count, records=count * self._records) | latency_sample(latencies_s)

    @abstractmethod
    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample: ...


class ConfluentTransactions(TransactionsCase):
    client = "confluent"

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with self._topic(peer, turn) as topic:
            reporting = confluent.ReportingProducer(
                peer, **{"transactional.id": self._transactional_id, "linger.ms": 0}
            )
            try:
                reporting.producer.init_transactions(confluent.TRANSACTION_TIMEOUT_S)
                return self._commit_for(peer, reporting.producer, topic, seconds)
            finally:
                reporting.close()

    def _commit_for(self, peer: Peer, producer: Producer, topic: str, seconds: float) -> Sample:
        for _ in range(_FIRST):
            confluent.commit_one(producer, topic, _VALUE, self._records)
        latencies_s = []
        with Meter(peer) as meter:
            now = time.perf_counter()
            deadline = now + seconds
            while now < deadline:
                confluent.commit_one(producer, topic, _VALUE, self._records)
                done = time.perf_counter()
                latencies_s.append(done - now)
                now = done
        return self._sample(meter, latencies_s)


class JavaTransactionsCase(TransactionsCase):
    """A JVM for every peer, which lives as long as the case: at its start it is several times slower than later."""

    client = "java"
    # The JVM's start and its load before the first round.
    extra_seconds = 5.0

    def __init__(self, records: int, peer_warmup: int = TRANSACTIONS, jvm_warmup_s: float = 3.0) -> None:
        super().__init__(records, peer_warmup)
        self._jvm_warmup_s = jvm_warmup_s
        self.drivers: dict[str, JavaTransactions] = {}

    def prepare(self, peer: Peer, seconds: float) -> None:
        super().prepare(peer, seconds)
        self.drivers[peer.name] = JavaTransactions(peer, self._transactional_id)
        with self._topic(peer, "warmup") as topic, suppress(OvertakenError):
            # The round that is not counted does the rest.
            self._commit(peer, topic, self._jvm_warmup_s - seconds)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with self._topic(peer, turn) as topic:
            while True:
                with suppress(OvertakenError):
                    self._commit(peer, topic)
                    with Meter(peer, self.drivers[peer.name].cpu_seconds) as meter:
                        latencies_s = self._commit(peer, topic, seconds)
                    return self._sample(meter, latencies_s)

    def finish(self, peer: Peer) -> None:
        driver = self.drivers.pop(peer.name, None)
        if driver is not None:
            driver.close()

    def _commit(self, peer: Peer, topic: str, seconds: float = 0.0) -> list[float]:
        driver = self.drivers[peer.name]
        return driver.commit(topic, self._records, len(_VALUE), seconds, transactions=1 if seconds > 0 else _FIRST)


class Transactions(Work):
    name = "transactions"
    title = "Transactions in sequence"
    quick = {"records": [1]}

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--records", type=numbers, default=[1, 100], help="of a transaction; a list")
        parser.add_argument("--peer-warmup", type=int, default=TRANSACTIONS, help="transactions before the first case")

    def cases(self, options: Namespace) -> Sequence[Case]:
        clients = (ConfluentTransactions, JavaTransactionsCase)
        cases = [make(records, options.peer_warmup) for records in options.records for make in clients]
        if options.peer_warmup:
            cases[0].extra_seconds += _PEER_WARMUP_S
        return cases
