"""Kafka's own transactional producer, in a JVM that stays warm from one sample to the next (`TransactionLoad.java`)."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from bench import process
from bench.clients.confluent import ClientError
from bench.peers.base import Peer
from conformance.reference.tools import compiled, java_command

SOURCE = Path(__file__).with_name("TransactionLoad.java")
_JVM = ("-Xms128m", "-Xmx128m", "-XX:+UseSerialGC")
_LAST_WORDS = 500


class OvertakenError(ClientError):
    """The client's commit has overtaken its record, as it may with any broker; there is a new producer."""


class JavaTransactions:
    """One producer with one transactional id, until `close`."""

    def __init__(self, peer: Peer, transactional_id: str) -> None:
        command = java_command(
            *(SOURCE.stem, peer.bootstrap_servers, transactional_id), jvm_options=_JVM, more_jars=[compiled(SOURCE)]
        )
        self._peer = peer
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def commit(
        self, topic: str, records: int, record_bytes: int, seconds: float, *, transactions: int = 1
    ) -> list[float]:
        """Commits at least so many transactions, for at least so long; the seconds that each of them took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = "\t".join(map(str, (topic, records, record_bytes, transactions, seconds)))
        # If the JVM has ended, what it said before is still to be read.
        with suppress(BrokenPipeError):
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
        word, _, rest = self._process.stdout.readline().rstrip("\n").partition("\t")
        if word == "again":
            raise OvertakenError(rest)
        if word != "ok":
            said = rest or self._last_words()
            raise ClientError(f"Java's producer has ended: {said}; the broker said: {self._peer.last_words()}")
        return [int(nanoseconds) / 1e9 for nanoseconds in rest.split()]

    def cpu_seconds(self) -> float:
        return process.cpu_seconds(self._process.pid)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _last_words(self) -> str:
        self._process.kill()
        self._process.wait()
        self._log.seek(0)
        return self._log.read()[-_LAST_WORDS:]
