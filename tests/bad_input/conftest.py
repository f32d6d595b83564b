"""What every row demands besides its answer: nothing is written, nothing unexpected is logged as an error, and a
well-behaved client beside it is served, on a connection that it had before and on a new one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from oncelog.broker.log.disk import Disk
from oncelog.protocol.records.record import iter_records
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    end_offset,
    fetch,
    produce,
    produce_codes,
    record,
)

StartBroker = Callable[..., LiveBroker]


class ErrorLog(logging.Handler):
    """Keeps what the broker logs as an error: with bad input, that would be a bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, entry: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(entry))


@pytest.fixture
def error_log() -> Iterator[ErrorLog]:
    handler = ErrorLog()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)
    assert handler.lines == []


class Neighbour:
    """A well-behaved client with a topic of its own."""

    TOPIC = "neighbour"

    def __init__(self, broker: LiveBroker) -> None:
        self._broker = broker
        self._client = RawClient(broker.port)
        if self.TOPIC not in broker.app.services.metadata.image.topics:
            create_topic(self._client, self.TOPIC)

    def check(self) -> None:
        """It is served: what it produces it can fetch, on its old connection and on a new one."""
        self.round_trip(self._client)
        with RawClient(self._broker.port) as client:
            self.round_trip(client)

    def round_trip(self, client: RawClient | None = None) -> None:
        client = client or self._client
        value = b"hello neighbour"
        response = client.call(produce(self.TOPIC, batch(record(value))), PRODUCE_VERSION)
        assert produce_codes(response) == [0]
        offset = response.responses[0].partition_responses[0].base_offset
        (data,) = client.call(fetch(self.TOPIC, offset), FETCH_VERSION).responses[0].partitions
        assert data.error_code == 0
        assert [found.value for found in iter_records(memoryview(data.records))] == [value]

    def close(self) -> None:
        self._client.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Target:
    """A topic that bad input is aimed at; afterwards it must hold what the test said was written, and no more."""

    def __init__(self, broker: LiveBroker, name: str, configs: Mapping[str, str]) -> None:
        self.name = name
        self.written = 0
        with RawClient(broker.port) as client:
            self.id = create_topic(client, name, **configs)

    def check(self, broker: LiveBroker) -> None:
        with RawClient(broker.port) as client:
            assert end_offset(client, self.name) == self.written


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    # Its neighbour may hear nothing for as long as the tests of other folders take.
    settings = {"auto.create.topics.enable": "false", "connections.max.idle.ms": "-1"}
    broker = LiveBroker(tmp_path_factory.mktemp("data"), settings)
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def shared_neighbour(shared_broker: LiveBroker) -> Iterator[Neighbour]:
    neighbour = Neighbour(shared_broker)
    yield neighbour
    neighbour.close()


@pytest.fixture
def broker(shared_broker: LiveBroker, shared_neighbour: Neighbour, error_log: ErrorLog) -> Iterator[LiveBroker]:
    """A broker that many tests share: each must leave it as it was, but for its own topics."""
    yield shared_broker
    shared_neighbour.check()


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


@pytest.fixture
def target(broker: LiveBroker, request: pytest.FixtureRequest) -> Iterator[Target]:
    """A topic; `@pytest.mark.parametrize("target", [{...}], indirect=True)` gives it settings."""
    configs: dict[str, Any] = getattr(request, "param", {})
    target = Target(broker, f"target-{len(broker.app.services.metadata.image.topics)}", configs)
    yield target
    target.check(broker)


@pytest.fixture
def start_broker(tmp_path: Path, error_log: ErrorLog) -> Iterator[StartBroker]:
    """Makes a broker for one test, with settings or a disk of its own."""
    started: list[LiveBroker] = []

    def start(
        config: Mapping[str, str] | None = None, *, disk: Disk | None = None, data_dir: Path | None = None
    ) -> LiveBroker:
        started.append(LiveBroker(data_dir or tmp_path / f"data-{len(started)}", config, disk))
        return started[-1]

    yield start
    for broker in started:
        broker.stop()
