"""Transactions in sequence: begin, produce one or a hundred records, commit."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from confluent_kafka import Producer

from bench.case import Case, Work, numbers
from bench.clients import confluent
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.stats import latency_sample

_TIMEOUT_S = 60.0
_VALUE = bytes(100)
_FIRST = 10


class TransactionsCase(Case):
    headline = "transactions_per_s"
    seconds_factor = 2.0

    def __init__(self, records: int) -> None:
        peers = ("kafka", "kafka-fsync", "oncelog", "oncelog-fsync", "kfake")
        super().__init__(f"of {records}", peers, records=records)
        self._records = records

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with confluent.topic(peer, f"transactions-of-{self._records}-{turn}", 1) as topic:
            counting = confluent.CountingProducer(
                peer, **{"transactional.id": f"bench-{self._records}", "linger.ms": 0}
            )
            try:
                counting.producer.init_transactions(_TIMEOUT_S)
                return self._commit_for(peer, counting.producer, topic, seconds)
            finally:
                counting.close()

    def _commit_for(self, peer: Peer, producer: Producer, topic: str, seconds: float) -> Sample:
        for _ in range(_FIRST):
            self._commit_one(producer, topic)
        latencies_s = []
        with Meter(peer) as meter:
            now = time.perf_counter()
            deadline = now + seconds
            while now < deadline:
                self._commit_one(producer, topic)
                done = time.perf_counter()
                latencies_s.append(done - now)
                now = done
        count = len(latencies_s)
        return meter.sample(transactions=count, records=count * self._records) | latency_sample(latencies_s)

    def _commit_one(self, producer: Producer, topic: str) -> None:
        producer.begin_transaction()
        for _ in range(self._records):
            producer.produce(topic, _VALUE)
        producer.commit_transaction(_TIMEOUT_S)


class Transactions(Work):
    name = "transactions"
    title = "Transactions in sequence"
    quick = {"records": [1]}

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--records", type=numbers, default=[1, 100], help="of a transaction; a list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [TransactionsCase(records) for records in options.records]
