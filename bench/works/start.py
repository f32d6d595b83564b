"""Start to ready on an empty directory, what a broker costs when nobody uses it, and its memory under load."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence

from bench.case import BROKERS, Case, Work
from bench.meter import Sample
from bench.peers.base import Peer
from bench.warmup import warm_up

_IDLE_SECONDS = 2.0


class StartCase(Case):
    headline = "start_s"
    starts_peers = True
    warmups = 0
    extra_seconds = 8.0

    def __init__(self) -> None:
        super().__init__("empty directory", (*BROKERS, "kfake"))

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        peer.close()
        peer.format()
        began = time.perf_counter()
        peer.start()
        start_s = time.perf_counter() - began
        # A broker is idle when it has come to rest, thus a while after its start.
        time.sleep(_IDLE_SECONDS / 2)
        cpu_s, began = peer.cpu_seconds(), time.perf_counter()
        time.sleep(_IDLE_SECONDS / 2)
        idle_cpu_s = (peer.cpu_seconds() - cpu_s) / (time.perf_counter() - began)
        sample = {"start_s": start_s, "idle_rss_mb": peer.rss_megabytes(), "idle_cpu_ms_per_s": idle_cpu_s * 1e3}
        peer.close()
        return sample


class Start(Work):
    name = "start"
    title = "Start to ready, and idle"
    own_peers = True
    quick = {}

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [StartCase()]


class MemoryCase(Case):
    """Of peers that have been through all the work before: what they have now, and what they ever had."""

    headline = "rss_mb"
    warmups = 0
    rounds = 1
    extra_seconds = 0.0

    def __init__(self) -> None:
        super().__init__("under load", (*BROKERS, "kfake"))

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        warm_up(peer, seconds)
        return {"rss_mb": peer.rss_megabytes(), "peak_rss_mb": peer.peak_rss_megabytes()}


class Memory(Work):
    name = "memory"
    title = "Memory under load"

    def cases(self, options: Namespace) -> Sequence[Case]:
        return [MemoryCase()]
