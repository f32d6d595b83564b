"""Random requests for every API and version that the broker has, whole and damaged, against a running broker.

It never dies, never logs an error, answers what is well-formed in a form that can be decoded, and keeps serving the
client beside it. `ONCELOG_FUZZ_SECONDS` says for how long to look (`make fuzz`), `ONCELOG_FUZZ_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import psutil
import pytest

from oncelog.broker.handlers import APIS
from tests.bad_input.conftest import ErrorLog, Neighbour, StartBroker
from tests.bad_input.generator import TOPICS, Generator, mutate
from tests.bad_input.raw import RawClient, decode_answer, request_payload
from tests.bad_input.requests import create_topic

SECONDS = float(os.environ.get("ONCELOG_FUZZ_SECONDS", "8"))
SEED = int(os.environ.get("ONCELOG_FUZZ_SEED", random.randrange(1 << 32)))
ANSWER_SECONDS_MAX = 0.2
MEMORY_GROWTH_BYTES_MAX = 200 << 20


class Fuzzer:
    def __init__(self, port: int, generator: Generator) -> None:
        self._port = port
        self._generator = generator
        self._client: RawClient | None = None
        self.counts: Counter[str] = Counter()
        self.last = b""

    def step(self) -> None:
        request, version = self._generator.request()
        payload = request_payload(request, version)
        if self._generator.rng.random() < 0.5:
            damaged = bytearray(payload)
            mutate(self._generator.rng, damaged)
            self._send(bytes(damaged))
            return
        answer = self._send(payload)
        if answer is not None:
            assert request.API_KEY is not None
            correlation_id, _ = decode_answer(answer, request.API_KEY, version)
            assert correlation_id == 1

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
            self._client = None

    def _send(self, payload: bytes) -> bytes | None:
        """The answer, if there is one soon; a connection with something still to come is given up."""
        self.last = payload
        if self._client is None:
            self._client = RawClient(self._port)
            self._client.socket.settimeout(ANSWER_SECONDS_MAX)
        try:
            self._client.send_frame(payload)
            answer = self._client.read_frame()
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            self.counts["waits"] += 1
            self.close()
            return None
        self.counts["closed" if answer is None else "answered"] += 1
        if answer is None:
            self.close()
        return answer


@pytest.mark.fuzz
def test_random_requests_against_a_running_broker(start_broker: StartBroker, error_log: ErrorLog) -> None:
    broker = start_broker({"auto.create.topics.enable": "true"})
    generator = Generator(SEED)
    memory_before = psutil.Process().memory_info().rss
    with Neighbour(broker) as neighbour, RawClient(broker.port) as client:
        for topic in TOPICS[:3]:
            generator.topic_ids.append(create_topic(client, topic, partitions=2))
        create_topic(client, TOPICS[-1], cleanup_policy="compact")
        fuzzer = Fuzzer(broker.port, generator)
        ends_at = time.monotonic() + SECONDS
        steps = 0
        try:
            while time.monotonic() < ends_at:
                fuzzer.step()
                steps += 1
                assert not error_log.lines, f"seed {SEED}: the broker logged an error {error_log.lines[0][-2000:]}"
                if not steps % 200:
                    neighbour.check()
        except AssertionError as error:
            raise AssertionError(f"seed {SEED}, step {steps}, frame {fuzzer.last[:500].hex()}") from error
        finally:
            fuzzer.close()
        neighbour.check()
    assert steps > SECONDS * 20, fuzzer.counts
    assert fuzzer.counts["answered"] > steps / 4, fuzzer.counts
    assert psutil.Process().memory_info().rss - memory_before < MEMORY_GROWTH_BYTES_MAX


def test_the_generator_knows_every_api() -> None:
    generator = Generator(0)
    drawn = {request.API_KEY for request, _ in (generator.request() for _ in range(2000))}
    assert drawn == set(APIS)
