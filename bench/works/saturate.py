"""Produce with requests made beforehand: a client that costs next to nothing, so that the broker is the bottleneck.

Not idempotent, because a sequence would have to be written into every request; everything else is as in `produce`.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from bench.case import Case, Work, numbers
from bench.clients import confluent, wire
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.works.produce import PEERS
from bench.works.requests import check_all_arrived

_PARTITIONS, _CONNECTIONS, _WINDOW = 8, 4, 5
_BATCH_BYTES = 100_000


class SaturateCase(Case):
    headline = "mb_per_s"

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} B x {_PARTITIONS}", PEERS, size=size, partitions=_PARTITIONS)
        self._size = size
        self._count = max(1, _BATCH_BYTES // size)
        self._batch = b""

    def prepare(self, peer: Peer, seconds: float) -> None:
        self._batch = self._batch or wire.batch(self._count, self._size)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with confluent.topic(peer, f"saturate-{self._size}-{turn}", _PARTITIONS) as topic:
            every = [wire.produce_frame(topic, partition, self._batch) for partition in range(_PARTITIONS)]
            frames = [every[start:] + every[:start] for start in range(0, _PARTITIONS, _PARTITIONS // _CONNECTIONS)]
            with Meter(peer) as meter:
                driven = wire.drive(peer.bootstrap_servers, frames, window=_WINDOW, seconds=seconds)
            records = driven.requests * self._count
            check_all_arrived(peer, topic, records)
        return meter.sample(records=records, megabytes=records * self._size / 1e6, requests=driven.requests)


class Saturate(Work):
    name = "saturate"
    title = "Produce, broker-bound"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--size", type=numbers, default=[100, 1000, 10_000], help="of a record, bytes; a list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [SaturateCase(size) for size in options.size]
