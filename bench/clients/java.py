"""Kafka's own ProducerPerformance and ConsumerPerformance, with the compiler of the JVM unrestricted."""

from __future__ import annotations

import re
import resource
import subprocess
from typing import NamedTuple

from bench.clients.confluent import ClientError
from bench.peers.base import Peer
from conformance.reference.tools import TOOLS, java_command

_JVM = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC")
TIMEOUT_S = 180.0
# Of the records: the JVM of the client compiles meanwhile.
_WARMUP_SHARE = 0.4
_TAILS = {"50": "p50_ms", "99": "p99_ms", "99.9": "p999_ms"}


class Told(NamedTuple):
    """What the tool itself has measured, without the start of its JVM, and the CPU that it used."""

    records_per_s: float
    megabytes_per_s: float
    client_cpu_s: float
    latencies: dict[str, float] = {}


def produce(peer: Peer, topic: str, records: int, record_bytes: int) -> Told:
    output, cpu_s = _run(
        "kafka-producer-perf-test",
        *("--bootstrap-server", peer.bootstrap_servers, "--topic", topic, "--throughput", "-1"),
        *("--num-records", str(records), "--record-size", str(record_bytes)),
        *("--warmup-records", str(round(records * _WARMUP_SHARE))),
        *("--command-property", "acks=all", "enable.idempotence=true", "linger.ms=5"),
    )
    found = re.findall(r"([\d.]+) records/sec \(([\d.]+) MB/sec\)", output)
    if not found:
        raise ClientError(f"ProducerPerformance said: {output[-500:]}")
    # The last line is about those behind the warm-up; its MB are of 2^20 bytes.
    tails = re.findall(r"([\d.]+) ms ([\d.]+)th", output.strip().splitlines()[-1])
    latencies = {_TAILS[rank]: float(ms) for ms, rank in tails if rank in _TAILS}
    return Told(float(found[-1][0]), float(found[-1][0]) * record_bytes / 1e6, cpu_s, latencies)


def consume(peer: Peer, topic: str, records: int, record_bytes: int) -> Told:
    output, cpu_s = _run(
        "kafka-consumer-perf-test",
        *("--bootstrap-server", peer.bootstrap_servers, "--topic", topic, "--num-records", str(records)),
        *("--command-property", "isolation.level=read_committed", "--hide-header"),
    )
    fields = [field.strip() for field in output.strip().splitlines()[-1].split(",")] if output.strip() else []
    if len(fields) < 10 or int(float(fields[4])) < records:
        raise ClientError(f"ConsumerPerformance said: {output[-500:]}")
    # The last field is the rate without the time until the group had its assignment.
    return Told(float(fields[9]), float(fields[9]) * record_bytes / 1e6, cpu_s)


def _run(tool: str, *arguments: str) -> tuple[str, float]:
    before = _children_cpu_s()
    done = subprocess.run(
        java_command(TOOLS[tool], *arguments, jvm_options=_JVM),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ClientError(f"{tool} failed: {(done.stdout + done.stderr)[-500:]}")
    return done.stdout, _children_cpu_s() - before


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
