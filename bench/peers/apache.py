"""Apache Kafka 4.3 out of Maven's jars, with the JVM options of its own start script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.clients.wire import is_ready
from bench.peers.base import READY_TIMEOUT_S, Peer
from conformance.reference.kafka import ApacheKafka

# What bin/kafka-server-start.sh and bin/kafka-run-class.sh give the JVM.
_JVM = (
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
# The reference shortens these for tests of restarts; here Kafka has its own defaults, but may be paused while others
# are measured, which its controller must not take for the death of its broker.
_DEFAULTS = {"broker.session.timeout.ms": "3600000", "broker.heartbeat.interval.ms": "2000"}


class Apache(Peer):
    name = "kafka"
    compiles_itself = True
    own_settings: Mapping[str, str] = {}

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**_DEFAULTS, **self.own_settings, **settings}
        self._kafka: ApacheKafka | None = None

    @property
    def bootstrap_servers(self) -> str:
        assert self._kafka is not None, f"{self.name} was not started"
        return self._kafka.bootstrap_servers

    @property
    def pid(self) -> int:
        assert self._kafka is not None, f"{self.name} was not started"
        return self._kafka.pid

    @property
    def is_running(self) -> bool:
        return self._kafka is not None and self._kafka.is_running

    @property
    def log_directory(self) -> Path | None:
        return self._kafka.data_dir if self._kafka is not None else None

    def start(self) -> None:
        if self._kafka is None:
            self.format()
        assert self._kafka is not None
        self._kafka.start()
        while not is_ready(self.bootstrap_servers):
            assert self.is_running, f"{self.name} ended at its start"

    def format(self) -> None:
        self._kafka = ApacheKafka(self._settings, heap="1g", jvm_options=_JVM, start_timeout_s=READY_TIMEOUT_S)
        self._kafka.format()

    def stop(self) -> None:
        if self._kafka is not None:
            self._kafka.stop()

    def kill(self) -> None:
        if self._kafka is not None:
            self._kafka.kill()

    def close(self) -> None:
        kafka, self._kafka = self._kafka, None
        if kafka is not None:
            kafka.kill()
            kafka.close()


class ApacheFlush(Apache):
    """Every append is fsynced before it is answered, as Oncelog does by default."""

    name = "kafka-fsync"
    own_settings = {"log.flush.interval.messages": "1"}
