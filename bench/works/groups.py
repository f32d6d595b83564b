"""A rebalance of many members over many partitions, in both group protocols.

All members are in this process. Measured is the time from the first subscribe until every member owns
partitions and every partition is owned, once, and then from the moment a member leaves until the same holds of the
others.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack

from confluent_kafka import Consumer

from bench.case import Case, Work
from bench.clients import confluent
from bench.clients.confluent import ClientError
from bench.meter import Sample
from bench.peers.base import Peer

HEARTBEAT_MS = 200
PATIENCE_SECONDS = 60.0


class RebalanceCase(Case):
    headline = "join_s"
    warmups = 0

    def __init__(self, protocol: str, members: int, partitions: int) -> None:
        super().__init__(
            f"{protocol}, {members} members, {partitions} partitions",
            ("kafka", "oncelog"),
            protocol=protocol,
            members=members,
            partitions=partitions,
        )
        self._protocol, self._members, self._partitions = protocol, members, partitions
        self.extra_seconds = 5.0 + members / 2

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        settings = {
            "group.id": f"rebalance-{self._protocol}-{self._members}-{turn}",
            "group.protocol": self._protocol,
        }
        if self._protocol == "classic":
            # A member learns of a rebalance by its heartbeat; with the default of 3 s nothing else would be measured.
            # In the other protocol the broker says how often it beats: here, as often.
            settings["heartbeat.interval.ms"] = str(HEARTBEAT_MS)
        with (
            confluent.topic(peer, f"rebalance-{self._protocol}-{turn}", self._partitions) as topic,
            ExitStack() as stack,
        ):
            members = [stack.enter_context(confluent.consumer(peer, **settings)) for _ in range(self._members)]
            cpu_s, began = peer.cpu_seconds(), time.perf_counter()
            for member in members:
                member.subscribe([topic])
            self._wait_until_owned(members)
            joined = time.perf_counter()
            members.pop().close()
            self._wait_until_owned(members)
            left = time.perf_counter()
            cpu_s = peer.cpu_seconds() - cpu_s
        sample = {"join_s": joined - began, "leave_s": left - joined}
        return sample | {"broker_cpu_s": cpu_s, "rss_mb": peer.rss_megabytes()}

    def _wait_until_owned(self, members: Sequence[Consumer]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            for member in members:
                member.poll(0)
            shares = [[part.partition for part in member.assignment()] for member in members]
            owned = [partition for share in shares for partition in share]
            if all(shares) and len(owned) == len(set(owned)) == self._partitions:
                return
            if time.monotonic() > deadline:
                raise ClientError(f"{len(set(owned))} of {self._partitions} partitions were owned in time")


class Groups(Work):
    name = "groups"
    title = "Group rebalance"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--members", type=int, default=30)
        parser.add_argument("--partitions", type=int, default=300)
        parser.add_argument("--protocol", choices=("classic", "consumer"), help="one of the two")

    def cases(self, options: Namespace) -> Sequence[Case]:
        protocols = [options.protocol] if options.protocol else ["classic", "consumer"]
        return [RebalanceCase(protocol, options.members, options.partitions) for protocol in protocols]
