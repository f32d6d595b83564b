"""Many small requests, and many connections: one record in a request, with requests made beforehand on bare sockets."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from bench.case import BROKERS, Case, Work, numbers
from bench.clients import confluent, wire
from bench.clients.wire import WireError
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.stats import latency_sample

_PARTITIONS = 8
_VALUE_BYTES = 100
_CONNECTIONS, _WINDOW = 8, 4


class ConnectionsCase(Case):
    """Every connection produces one record, waits for its ack, and produces the next."""

    headline = "requests_per_s"

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} connections", (*BROKERS, "kfake", "floor"), connections=count)
        self._count = count

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with confluent.topic(peer, f"connections-{self._count}-{turn}", _PARTITIONS) as topic:
            one = wire.batch(1, _VALUE_BYTES)
            frames = [[wire.produce_frame(topic, index % _PARTITIONS, one)] for index in range(self._count)]
            with wire.driver(peer.bootstrap_servers, frames) as run, Meter(peer) as meter:
                driven = run(seconds)
            check_all_arrived(peer, topic, driven.requests)
        return meter.sample(requests=driven.requests) | latency_sample(driven.latencies_s)


class SmallRequestsCase(Case):
    """A few connections that always have some requests of one kind under way."""

    headline = "requests_per_s"

    def __init__(self, kind: str) -> None:
        peers = (*BROKERS, "kfake", "floor") if kind == "produce" else ("kafka", "oncelog", "kfake")
        super().__init__(f"small {kind}", peers, kind=kind)
        self._kind = kind

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        with confluent.topic(peer, f"small-{self._kind.replace(' ', '-')}-{turn}", 1) as topic:
            one = wire.produce_frame(topic, 0, wire.batch(1, _VALUE_BYTES))
            if self._kind != "produce":
                wire.drive(peer.bootstrap_servers, [[one]], requests=1)
            frame = {
                "produce": one,
                "fetch": wire.fetch_frame(topic, 0, 0, 10_000),
                "metadata": wire.metadata_frame(topic),
                "list offsets": wire.list_offsets_frame(topic, 0),
            }[self._kind]
            if self._kind != "produce":
                wire.check_answers(peer.bootstrap_servers, [frame])
            with Meter(peer) as meter:
                driven = wire.drive(peer.bootstrap_servers, [[frame]] * _CONNECTIONS, window=_WINDOW, seconds=seconds)
            if self._kind == "produce":
                check_all_arrived(peer, topic, driven.requests, partitions=1)
        return meter.sample(requests=driven.requests)


def check_all_arrived(peer: Peer, topic: str, count: int, partitions: int = _PARTITIONS) -> None:
    """Every answer was an ack and not an error, where the peer can be asked."""
    if not peer.creates_topics:
        return
    found = sum(wire.end_offsets(peer.bootstrap_servers, topic, partitions))
    if found != count:
        raise WireError(f"{count} requests were answered, and the log has {found} of their records")


class Connections(Work):
    name = "connections"
    title = "1, 50, 500 connections"
    quick = {"connections": [50]}

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--connections", type=numbers, default=[1, 50, 500], help="a list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [ConnectionsCase(count) for count in options.connections]


class Requests(Work):
    name = "requests"
    title = "Many small requests"

    def add_options(self, parser: ArgumentParser) -> None:
        kinds = ["produce", "fetch", "metadata", "list offsets"]
        parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds)

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [SmallRequestsCase(kind) for kind in options.kinds]
