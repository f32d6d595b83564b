"""Consume, transform, produce: a hundred records and their offsets in each transaction, read_committed."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.case import BROKERS, Case, Work
from bench.clients import confluent, wire
from bench.clients.confluent import ClientError
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.stats import latency_sample
from bench.warmup import TRANSACTIONS, warm_up_transactions

_TIMEOUT_S = 60.0
_SIZE = 100
# More than any peer gets through in a second.
_RECORDS_PER_SECOND = 100_000


class TransformCase(Case):
    headline = "records_per_s"
    extra_seconds = 2.0

    def __init__(self, batch: int, peer_warmup: int = TRANSACTIONS) -> None:
        super().__init__(f"{batch} records a transaction", (*BROKERS, "kfake"), batch=batch)
        self._batch = batch
        self._peer_warmup = peer_warmup
        self._input = f"transform-input-{batch}-1"

    def prepare(self, peer: Peer, seconds: float) -> None:
        warm_up_transactions(peer, self._peer_warmup)
        confluent.create_topic(peer, self._input, 1)
        megabytes = _RECORDS_PER_SECOND * _SIZE * seconds / 1e6
        wire.fill(peer.bootstrap_servers, self._input, 1, megabytes, _SIZE, batch_bytes=10_000)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        group = f"transform-{self._batch}-{turn}"
        with (
            confluent.topic(peer, f"transform-output-{turn}", 1) as output,
            confluent.consumer(peer, **{"group.id": group}) as reader,
        ):
            reader.subscribe([self._input])
            reporting = confluent.ReportingProducer(peer, **{"transactional.id": group, "linger.ms": 0})
            try:
                reporting.producer.init_transactions(_TIMEOUT_S)
                # The first waits for the group's assignment.
                self._transform_one(reader, reporting.producer, output)
                records, latencies_s = 0, []
                with Meter(peer) as meter:
                    now = time.perf_counter()
                    deadline = now + seconds
                    while now < deadline:
                        records += self._transform_one(reader, reporting.producer, output)
                        done = time.perf_counter()
                        latencies_s.append(done - now)
                        now = done
            finally:
                reporting.close()
        return meter.sample(records=records, transactions=len(latencies_s)) | latency_sample(latencies_s)

    def _transform_one(self, reader: Consumer, producer: Producer, output: str) -> int:
        messages = reader.consume(self._batch, 5.0)
        deadline = time.monotonic() + _TIMEOUT_S
        while not messages:
            if time.monotonic() > deadline:
                raise ClientError("no input came")
            messages = reader.consume(self._batch, 5.0)
        producer.begin_transaction()
        for message in messages:
            if message.error() is not None:
                raise ClientError(f"the consumer got {message.error()}")
            producer.produce(output, (message.value() or b"")[::-1])
        offsets = [TopicPartition(self._input, 0, (messages[-1].offset() or 0) + 1)]
        producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), _TIMEOUT_S)
        producer.commit_transaction(_TIMEOUT_S)
        return len(messages)

    def finish(self, peer: Peer) -> None:
        confluent.delete_topic(peer, self._input)


class Transform(Work):
    name = "transform"
    title = "Consume, transform, produce"
    quick = {}

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--batch", type=int, default=100, help="records in a transaction")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [TransformCase(options.batch)]
