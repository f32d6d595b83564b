"""Measures one turn of a peer: wall time, the broker's CPU and memory, and whether the client was the bottleneck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from bench.peers.base import Peer

Sample = dict[str, float]


class Meter:
    """`with Meter(peer) as meter: …`, then `meter.sample(records=…)`; the client is this process, or told."""

    def __init__(self, peer: Peer, client_cpu_s: Callable[[], float] = time.process_time) -> None:
        self._peer = peer
        self._client_cpu_s = client_cpu_s
        self.seconds = self.broker_cpu_s = self.client_cpu_s = 0.0

    def __enter__(self) -> Self:
        self.broker_cpu_s = -self._peer.cpu_seconds()
        self.client_cpu_s = -self._client_cpu_s()
        self.seconds = -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()
        self.client_cpu_s += self._client_cpu_s()
        self.broker_cpu_s += self._peer.cpu_seconds()

    def sample(
        self, *, records: int = 0, megabytes: float = 0.0, requests: int = 0, transactions: int = 0, **more: float
    ) -> Sample:
        """Rates and costs of what was done in the time, each only where it was counted."""
        sample: Sample = {}
        if megabytes:
            sample["mb_per_s"] = megabytes / self.seconds
            sample["cpu_ms_per_mb"] = self.broker_cpu_s * 1e3 / megabytes
        if records:
            sample["records_per_s"] = records / self.seconds
        if transactions:
            sample["transactions_per_s"] = transactions / self.seconds
            sample["cpu_ms_per_transaction"] = self.broker_cpu_s * 1e3 / transactions
        if requests:
            sample["requests_per_s"] = requests / self.seconds
            sample["cpu_us_per_request"] = self.broker_cpu_s * 1e6 / requests
        sample |= more
        sample["broker_cores"] = self.broker_cpu_s / self.seconds
        sample["client_cores"] = self.client_cpu_s / self.seconds
        sample["rss_mb"] = self._peer.rss_megabytes()
        return sample
