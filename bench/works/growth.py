"""The cost of a request as other things grow: idle partitions, idle connections. It should not grow with them.

A control, in which nothing grows, is measured in the same rounds: the machine does not become slower with the curve,
nor faster. The request is a mix on one connection: produce one record, fetch one, ask for metadata of the topic.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack

from bench.case import Case, Work, numbers
from bench.clients import confluent, wire
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.stats import latency_sample

PEERS = ("kafka", "oncelog")
CONTROL = "oncelog-control"
_VALUE_BYTES = 100
_AT_ONCE = 250
_CREATE_TIMEOUT_S = 150.0


class OutOfReachError(Exception):
    """A peer cannot get as far as the case needs it, in the time or with the room that there is."""


def measure_mix(peer: Peer, topic: str, seconds: float) -> Sample:
    mix = [
        wire.produce_frame(topic, 0, wire.batch(1, _VALUE_BYTES)),
        wire.fetch_frame(topic, 0, 0, 200),
        wire.metadata_frame(topic),
    ]
    wire.check_answers(peer.bootstrap_servers, mix)
    with Meter(peer) as meter:
        driven = wire.drive(peer.bootstrap_servers, [mix], seconds=seconds)
    return meter.sample(requests=driven.requests) | latency_sample(driven.latencies_s)


class PartitionsCase(Case):
    headline = "cpu_us_per_request"
    extra_seconds = 3.0

    def __init__(self, partitions: int, created: dict[str, int]) -> None:
        super().__init__(f"{partitions} partitions", (*PEERS, CONTROL), partitions=partitions)
        self._partitions, self._created = partitions, created
        self.extra_seconds = 2.0 + partitions / 200
        self._create_s: dict[str, float] = {}

    def prepare(self, peer: Peer, seconds: float) -> None:
        began = time.monotonic()
        if peer.name not in self._created:
            confluent.create_topic(peer, "target-1", 1)
            self._created[peer.name] = 0
        wanted = 0 if peer.name == CONTROL else self._partitions
        while (done := self._created[peer.name]) < wanted:
            if time.monotonic() - began > _CREATE_TIMEOUT_S:
                raise OutOfReachError(f"{done} of {self._partitions} partitions in {_CREATE_TIMEOUT_S:.0f} s")
            count = min(_AT_ONCE, self._partitions - done)
            confluent.create_topic(peer, f"idle-{done}-{count}", count)
            self._created[peer.name] += count
        self._create_s[peer.name] = time.monotonic() - began

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        return measure_mix(peer, "target-1", seconds) | {"create_s": self._create_s[peer.name]}


class RestartCase(Case):
    """A clean stop and a start with all these partitions."""

    headline = "start_s"
    warmups = 0
    rounds = 1

    def __init__(self, partitions: int, created: dict[str, int]) -> None:
        super().__init__(f"start with {partitions} partitions", PEERS, start_with_partitions=partitions)
        self._partitions, self._created = partitions, created
        self.extra_seconds = 5.0 + partitions / 500

    def prepare(self, peer: Peer, seconds: float) -> None:
        if (created := self._created.get(peer.name, 0)) < self._partitions:
            raise OutOfReachError(f"it had only {created} of {self._partitions} partitions")

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        peer.stop()
        began = time.perf_counter()
        peer.start()
        return {"start_s": time.perf_counter() - began, "rss_mb": peer.rss_megabytes()}


class Partitions(Work):
    name = "partitions"
    title = "Cost as idle partitions grow"
    own_peers = True
    # Kafka's own default, since it is stopped and started here; a pause would last longer.
    peer_settings = {"broker.session.timeout.ms": "9000"}
    pauses_peers = False

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--partitions", type=numbers, default=[10, 100, 1000, 10_000], help="a rising list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        steps = options.partitions
        created: dict[str, int] = {}
        grown = [PartitionsCase(count, created) for count in steps]
        return [*grown, RestartCase(steps[-1], created)]


class IdleConnectionsCase(Case):
    headline = "cpu_us_per_request"

    def __init__(self, connections: int) -> None:
        super().__init__(f"{connections} idle connections", (*PEERS, CONTROL), idle_connections=connections)
        self._connections = connections
        self._topic = f"beside-{connections}-1"
        self._open: dict[str, ExitStack] = {}

    def prepare(self, peer: Peer, seconds: float) -> None:
        confluent.create_topic(peer, self._topic, 1)
        stack = self._open[peer.name] = ExitStack()
        if peer.name != CONTROL:
            stack.enter_context(wire.idle_connections(peer.bootstrap_servers, self._connections))

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        return measure_mix(peer, self._topic, seconds)

    def finish(self, peer: Peer) -> None:
        if peer.name in self._open:
            self._open.pop(peer.name).close()
        confluent.delete_topic(peer, self._topic)


class IdleConnections(Work):
    name = "idle-connections"
    title = "Cost as idle connections grow"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--connections", type=numbers, default=[0, 100, 1000, 4000], help="a list")

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [IdleConnectionsCase(count) for count in options.connections]
