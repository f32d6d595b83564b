"""A single Apache Kafka node (KRaft, combined mode) in a temporary directory on free ports of 127.0.0.1."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Self

from conformance.reference import processes
from conformance.reference.ports import free_ports
from conformance.reference.tools import FAST_START, java_command, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 30.0
START_ATTEMPTS = 3
NODE_ID = 1
_STARTED = "Kafka Server started"
_PORT_TAKEN = "Address already in use"


class ApacheKafka:
    """`with ApacheKafka() as kafka: kafka.bootstrap_servers`; `extra` overrides properties of the server.

    `listeners` are further ones, with their security protocols, by upper-case name; what they need (listener.name.…)
    belongs into `extra`. `scram` are users as kafka-storage takes them: `SCRAM-SHA-256=[name=me,password=secret]`.
    `features` are levels other than the newest: `transaction.version=1`.
    """

    def __init__(
        self,
        extra: Mapping[str, str] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        scram: Sequence[str] = (),
        features: Sequence[str] = (),
        heap: str = "512m",
        jvm_options: Sequence[str] = FAST_START,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._extra = dict(extra or {})
        self._jvm_options = (f"-Xms{heap}", f"-Xmx{heap}", "-Dkafka.log.level=INFO", *jvm_options)
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self._port = 0
        self._protocols = dict(listeners or {})
        self._scram = tuple(scram)
        self._features = tuple(features)
        self.ports: dict[str, int] = {}
        """Of the further listeners, by name."""
        self.data_dir = self._directory / "data"
        self.log_path = self._directory / "server.log"

    def __enter__(self) -> Self:
        try:
            self._format_and_start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts on the formatted directory and returns when the broker is unfenced and serves."""
        self.log_path.unlink(missing_ok=True)
        command = java_command("kafka.Kafka", str(self._properties_path), jvm_options=self._jvm_options)
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self._directory
            )
        self._wait_until_started()

    def stop(self) -> None:
        """Shuts down as SIGTERM does, so that the logs are marked clean; the data stays for `start`."""
        process, self._process = self._process, None
        if process is not None:
            processes.stop(process, STOP_TIMEOUT_S)

    def kill(self) -> None:
        """SIGKILL: no clean mark, no flush."""
        process, self._process = self._process, None
        if process is not None:
            processes.kill(process)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops the broker and removes its directory."""
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _properties_path(self) -> Path:
        return self._directory / "server.properties"

    def _format_and_start(self) -> None:
        for attempt in range(1, START_ATTEMPTS + 1):
            self.format()
            try:
                self.start()
            except RuntimeError as error:
                # Another process can take a port between its choice and the start of the server.
                if _PORT_TAKEN not in str(error) or attempt == START_ATTEMPTS:
                    raise
            else:
                return

    def format(self) -> None:
        """An empty data directory with an identity, and ports for it: what precedes the first `start`."""
        self._port, controller_port, *further = free_ports(2 + len(self._protocols))
        self.ports = dict(zip(self._protocols, further, strict=True))
        shutil.rmtree(self.data_dir, ignore_errors=True)
        properties = self._properties(controller_port) | self._extra
        self._properties_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        # The option's value may begin with a dash, hence the form with the equals sign.
        arguments = [f"--cluster-id={cluster_id}", "-c", str(self._properties_path)]
        arguments += [f"--add-scram={user}" for user in self._scram]
        arguments += [f"--feature={feature}" for feature in self._features]
        done = run_tool("kafka-storage", "format", *arguments)
        if done.returncode != 0:
            raise RuntimeError(f"kafka-storage format failed:\n{done.stdout}{done.stderr}")

    def _properties(self, controller_port: int) -> dict[str, str]:
        ports = {"PLAINTEXT": self._port, "CONTROLLER": controller_port} | self.ports
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | self._protocols
        return {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "log.dirs": str(self.data_dir),
            "default.replication.factor": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # After kill() the controller admits the broker again only when its former session has expired.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
        }

    def _wait_until_started(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self._start_timeout_s
        while _STARTED not in self.log_path.read_text(errors="replace"):
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.kill()
                what = "ended" if ended else f"was not ready within {self._start_timeout_s:.0f} s"
                raise RuntimeError(f"Apache Kafka {what}:\n{self.log_path.read_text(errors='replace')[-8000:]}")
            time.sleep(0.02)
