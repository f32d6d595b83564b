"""Opens the broker that the command line names: `apache`, `oncelog`, or HOST:PORT of one that runs."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from conformance.reference.kafka import ApacheKafka
from oncelog.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

APACHE = "apache"
ONCELOG = "oncelog"

UNSERVED_OFF = ("share.version=0", "streams.version=0")
"""Oncelog refuses share groups and streams groups as a Kafka without them does, so that is what it is compared with."""


class Running(NamedTuple):
    """A broker that serves. `crash` kills it with SIGKILL and starts it again on its data and its port; `restart`
    stops it in order."""

    address: str
    crash: Callable[[], None] | None = None
    restart: Callable[[], None] | None = None


def open_broker(name: str, settings: Mapping[str, str] | None = None) -> AbstractContextManager[Running]:
    if name == APACHE:
        return _apache(settings)
    if name == ONCELOG:
        return _oncelog(settings)
    return _running(name)


@contextmanager
def _apache(settings: Mapping[str, str] | None) -> Iterator[Running]:
    with ApacheKafka(settings, features=UNSERVED_OFF) as kafka, _taking_turns() as turn:

        def crash() -> None:
            kafka.kill()
            kafka.start()

        yield Running(kafka.bootstrap_servers, turn(crash), turn(kafka.restart))


@contextmanager
def _oncelog(settings: Mapping[str, str] | None) -> Iterator[Running]:
    with Broker(settings, subprocess=True) as broker, _taking_turns() as turn:

        def crash() -> None:
            broker.kill()
            broker.start()

        yield Running(broker.bootstrap_servers, turn(crash), turn(broker.restart))


@contextmanager
def _taking_turns() -> Iterator[Callable[[Callable[[], None]], Callable[[], None]]]:
    """A scenario's thread that is left alone by Ctrl-C must not start a broker that was just stopped for good."""
    lock, over = Lock(), False

    def turn(change: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            with lock:
                if over:
                    raise RuntimeError("the harness has ended")
                change()

        return guarded

    try:
        yield turn
    finally:
        with lock:
            over = True


@contextmanager
def _running(address: str) -> Iterator[Running]:
    yield Running(address)
