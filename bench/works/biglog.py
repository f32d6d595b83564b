"""A log that grows: the cost of a request at each size, and a restart after kill -9 on the way.

The request is a mix on one connection: produce one record, fetch at the log's start, middle and end, and look up an
offset by time. Apache Kafka's session timeout is cut to 3 s here; up to that much of its time from kill -9 to ready is
its controller waiting for the end of the former session.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from bench.case import Case, Work
from bench.clients import confluent, wire
from bench.meter import Meter, Sample
from bench.peers.base import Peer
from bench.stats import latency_sample
from bench.works.growth import CONTROL, OutOfReachError

TOPIC = "biglog-1"
SIZES_GB = (0.1, 1.0, 5.0, 10.0)
_RECORD_BYTES, _BATCH_BYTES = 1000, 100_000
_STEP_MEGABYTES = 250
_SLOWEST_MB_PER_S = 60
_SPARE_MEGABYTES = 5000


class Filling:
    """How far each peer's log has grown, in MB."""

    def __init__(self) -> None:
        self._megabytes: dict[str, float] = {}
        self._began_ms: dict[str, int] = {}
        self._ended_ms: dict[str, int] = {}

    def middle_ms(self, peer: Peer) -> int:
        """A time at which this log grew for the first time, and not one of the small records of the mix was written."""
        return (self._began_ms[peer.name] + self._ended_ms[peer.name]) // 2

    def grow_to(self, peer: Peer, megabytes: float) -> None:
        if peer.name not in self._megabytes:
            confluent.create_topic(peer, TOPIC, 1)
            self._megabytes[peer.name] = 0.0
            self._began_ms[peer.name] = int(time.time() * 1000)
        missing = megabytes - self._megabytes[peer.name]
        check_room(missing)
        deadline = time.monotonic() + 10 + missing / _SLOWEST_MB_PER_S
        while (missing := megabytes - self._megabytes[peer.name]) > 0:
            if time.monotonic() > deadline:
                raise OutOfReachError(f"its log had {self._megabytes[peer.name]:.0f} of {megabytes:.0f} MB in time")
            step = min(missing, _STEP_MEGABYTES)
            wire.fill(peer.bootstrap_servers, TOPIC, 1, step, _RECORD_BYTES, _BATCH_BYTES)
            self._megabytes[peer.name] += step
            self._ended_ms.setdefault(peer.name, int(time.time() * 1000))


def check_room(megabytes: float) -> None:
    """A disk that is full would end more than this case."""
    free_mb = shutil.disk_usage(tempfile.gettempdir()).free / 1e6
    if free_mb < megabytes + _SPARE_MEGABYTES:
        raise OutOfReachError(f"{megabytes:.0f} MB are to be written and the disk has only {free_mb:.0f} MB free")


class LogSizeCase(Case):
    headline = "cpu_us_per_request"

    def __init__(self, gigabytes: float, before: float, peers: Sequence[str], filling: Filling) -> None:
        super().__init__(f"{gigabytes:g} GB of log", peers, log_gb=gigabytes)
        self.extra_seconds = 2.0 + (gigabytes - before) * 8
        self._gigabytes = gigabytes
        self._filling = filling

    def prepare(self, peer: Peer, seconds: float) -> None:
        self._filling.grow_to(peer, SIZES_GB[0] * 1000 if peer.name == CONTROL else self._gigabytes * 1000)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        end = wire.end_offset(peer.bootstrap_servers, TOPIC)
        mix = [
            wire.produce_frame(TOPIC, 0, wire.batch(1, 100)),
            *(wire.fetch_frame(TOPIC, 0, offset, 1000) for offset in (0, end // 2, end - 1)),
            wire.list_offsets_frame(TOPIC, 0, self._filling.middle_ms(peer)),
        ]
        wire.check_answers(peer.bootstrap_servers, mix)
        with Meter(peer) as meter:
            driven = wire.drive(peer.bootstrap_servers, [mix], seconds=seconds)
        return meter.sample(requests=driven.requests) | latency_sample(driven.latencies_s)


class RecoveryCase(Case):
    """From kill -9 to ready; with the usual session timeout Kafka would wait for 9 s beside recovering."""

    headline = "recovery_s"
    warmups = 0
    rounds = 1

    def __init__(self, gigabytes: float, peers: Sequence[str], filling: Filling) -> None:
        super().__init__(f"restart after kill -9 with {gigabytes:g} GB", peers, recovery_gb=gigabytes)
        self.extra_seconds = 15.0
        self._gigabytes = gigabytes
        self._filling = filling

    def prepare(self, peer: Peer, seconds: float) -> None:
        self._filling.grow_to(peer, self._gigabytes * 1000)

    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        end = wire.end_offset(peer.bootstrap_servers, TOPIC)
        peer.kill()
        began = time.perf_counter()
        peer.start()
        recovery_s = time.perf_counter() - began
        found = wire.end_offset(peer.bootstrap_servers, TOPIC)
        # A kill loses nothing that the system has taken over; only a power cut would.
        if found != end:
            raise wire.WireError(f"the log ended at {end} before the kill and at {found} after it")
        return {"recovery_s": recovery_s, "rss_mb": peer.rss_megabytes()}


class BigLog(Work):
    name = "biglog"
    title = "Cost as the log grows, and restart after kill -9"
    own_peers = True
    peer_settings = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    # A pause would last longer than the session.
    pauses_peers = False

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--log-gb", type=float, default=20.0, help="to which Oncelog's log grows")
        parser.add_argument("--kafka-gb", type=float, default=5.0, help="to which Kafka's log grows")
        parser.add_argument("--kill-gb", type=float, default=5.0, help="at which both are killed")

    def cases(self, options: Namespace) -> Sequence[Case]:
        sizes = sorted({*(size for size in SIZES_GB if size < options.log_gb), options.log_gb})
        filling = Filling()
        cases: list[Case] = []
        before = 0.0
        for size in sizes:
            peers = ("kafka", "oncelog", CONTROL) if size <= options.kafka_gb else ("oncelog", CONTROL)
            if before < options.kill_gb <= size:
                cases.append(RecoveryCase(options.kill_gb, ("kafka", "oncelog"), filling))
            cases.append(LogSizeCase(size, before, peers, filling))
            before = size
        return cases
