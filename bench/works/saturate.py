"""Produce and fetch with requests made beforehand: a client that costs so little that the broker is the bottleneck.

Produce is not idempotent, because a sequence would have to be written into every request; everything else is as in
`produce`. A fetch asks for up to a megabyte of one partition, and nobody looks at what comes.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from bench import machine
from bench.case import WRITTEN_BYTES_MAX, Case, Work, numbers
from bench.clients import confluent, wire
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.works.produce import PEERS
from bench.works.requests import check_all_arrived

_PARTITIONS, _CONNECTIONS, _WINDOW = 8, 4, 5
_BATCH_BYTES = 100_000
_FETCHED_BYTES, _FETCHED_RECORD_BYTES, _FETCHED_MEGABYTES = 1_000_000, 1000, 400


class SaturateCase(Case):
    headline = "mb_per_s"

    def __init__(self, size: int) -> None:
        super().__init__(f"produce {size} B x {_PARTITIONS}", PEERS, size=size, partitions=_PARTITIONS)
        self._size = size
        self._count = max(1, _BATCH_BYTES // size)
        self._batch = b""

    def prepare(self, peer: Peer, seconds: float) -> None:
        self._batch = self._batch or wire.batch(self._count, self._size)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        machine.have_memory_at_hand(WRITTEN_BYTES_MAX)
        with confluent.topic(peer, f"saturate-{self._size}-{turn}", _PARTITIONS) as topic:
            every = [wire.produce_frame(topic, partition, self._batch) for partition in range(_PARTITIONS)]
            frames = [every[start:] + every[:start] for start in range(0, _PARTITIONS, _PARTITIONS // _CONNECTIONS)]
            requests = WRITTEN_BYTES_MAX // len(self._batch)
            with Meter(peer) as meter:
                driven = wire.drive(peer.bootstrap_servers, frames, window=_WINDOW, seconds=seconds, requests=requests)
            records = driven.requests * self._count
            check_all_arrived(peer, topic, records)
        return meter.sample(records=records, megabytes=records * self._size / 1e6, requests=driven.requests)


class SaturateFetchCase(Case):
    headline = "mb_per_s"
    extra_seconds = 3.0

    def __init__(self) -> None:
        name = f"fetch {_FETCHED_RECORD_BYTES} B x {_PARTITIONS}"
        super().__init__(name, ("kafka", "oncelog", "kfake"), partitions=_PARTITIONS)
        self._topic = f"saturate-fetch-{_PARTITIONS}"

    def prepare(self, peer: Peer, seconds: float) -> None:
        confluent.create_topic(peer, self._topic, _PARTITIONS)
        address, sizes = peer.bootstrap_servers, (_FETCHED_RECORD_BYTES, _BATCH_BYTES)
        wire.fill(address, self._topic, _PARTITIONS, _FETCHED_MEGABYTES, *sizes)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        end = min(wire.end_offsets(peer.bootstrap_servers, self._topic, _PARTITIONS))
        step = _FETCHED_BYTES // _FETCHED_RECORD_BYTES
        frames = [
            [wire.fetch_frame(self._topic, partition, offset, _FETCHED_BYTES) for offset in range(0, end - step, step)]
            for partition in range(_PARTITIONS)
        ]
        wire.check_answers(peer.bootstrap_servers, frames[0][:1])
        with Meter(peer) as meter:
            driven = wire.drive(peer.bootstrap_servers, frames, seconds=seconds)
        return meter.sample(megabytes=driven.received_bytes / 1e6, requests=driven.requests)

    def finish(self, peer: Peer) -> None:
        confluent.delete_topic(peer, self._topic)


class Saturate(Work):
    name = "saturate"
    title = "Produce and fetch, broker-bound"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--size", type=numbers, default=[100, 1000, 10_000], help="of a record, bytes; a list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [*(SaturateCase(size) for size in options.size), SaturateFetchCase()]
