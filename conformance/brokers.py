"""Opens the broker that the command line names: `apache`, `oncelog`, or HOST:PORT of one that runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from conformance.reference.kafka import ApacheKafka
from oncelog.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

APACHE = "apache"
ONCELOG = "oncelog"


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
    with ApacheKafka(settings) as kafka:

        def crash() -> None:
            kafka.kill()
            kafka.start()

        yield Running(kafka.bootstrap_servers, crash, kafka.restart)


@contextmanager
def _oncelog(settings: Mapping[str, str] | None) -> Iterator[Running]:
    with Broker(settings, subprocess=True) as broker:

        def crash() -> None:
            broker.kill()
            broker.start()

        yield Running(broker.bootstrap_servers, crash, broker.restart)


@contextmanager
def _running(address: str) -> Iterator[Running]:
    yield Running(address)
