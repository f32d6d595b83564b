"""A cell of the card: one scenario with one client, run on both brokers at the same time, and what differs."""

from __future__ import annotations

import json
import time
import traceback
import uuid
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from conformance.client import UnsupportedError
from conformance.clients import missing_for, open_client
from conformance.observations import ABSENT, differences
from conformance.scenarios import SCENARIOS
from conformance.scenarios.run import Run
from conformance.wire.listed import Found

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.brokers import Running
    from conformance.client import Client, Json


class CellResult(NamedTuple):
    client: str
    scenario: str
    alike: int
    """How many values the client saw on both brokers alike."""
    found: list[Found]
    skipped: str | None = None
    seconds: float = 0.0


class Seat:
    """A client on one broker. It stays open from one scenario to the next, and is opened anew after a failure.

    So it is when the broker was down: some clients notice only by their next call that their connection is gone.
    """

    def __init__(self, name: str, broker: Running) -> None:
        self._name, self._broker = name, broker
        self._client: Client | None = None
        self._was_down = False

    def observe(self, scenario: str, *, fast: bool) -> Json:
        """What the client saw, without names that change with each run."""
        if self._client is None:
            self._client = open_client(self._name, self._broker.address)
        crash, restart = self._noted(self._broker.crash), self._noted(self._broker.restart)
        run = Run(uuid.uuid4().hex[:8], fast, crash, restart, self._broker.address)
        try:
            seen = run.without_id(SCENARIOS[scenario](self._client, run))
        except UnsupportedError:
            raise
        except BaseException:
            with suppress(Exception):
                self.close()
            raise
        if self._was_down:
            with suppress(Exception):
                self.close()
        return seen

    def _noted(self, bring_down: Callable[[], None] | None) -> Callable[[], None] | None:
        if bring_down is None:
            return None

        def noted() -> None:
            self._was_down = True
            bring_down()

        return noted

    def close(self) -> None:
        client, self._client = self._client, None
        self._was_down = False
        if client is not None:
            client.close()


class Table:
    """Both seats of one client."""

    def __init__(self, name: str, expected: Running, actual: Running) -> None:
        self._name = name
        self._seats = (Seat(name, expected), Seat(name, actual))

    def compare(self, scenario: str, *, fast: bool = False) -> CellResult:
        if (reason := missing_for(self._name)) is not None:
            return CellResult(self._name, scenario, 0, [], reason)
        expected, actual = self._seats
        return compare(
            self._name,
            scenario,
            lambda: expected.observe(scenario, fast=fast),
            lambda: actual.observe(scenario, fast=fast),
        )

    def close(self) -> None:
        for seat in self._seats:
            with suppress(Exception):
                seat.close()


def compare(client: str, scenario: str, look: Callable[[], Json], look_here: Callable[[], Json]) -> CellResult:
    """Both looks at the same time: most of it is waiting."""
    started = time.monotonic()
    theirs, ours = _submit(look), _submit(look_here)
    wait((theirs, ours))
    return _conclude(client, scenario, theirs, ours, started)


def compare_in_turn(client: str, scenario: str, look: Callable[[], Json], look_here: Callable[[], Json]) -> CellResult:
    """In this thread, so that looks which start brokers stop them when the harness is interrupted."""
    started = time.monotonic()
    theirs: Future[Json] = Future()
    ours: Future[Json] = Future()
    for future, call in ((theirs, look), (ours, look_here)):
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
    return _conclude(client, scenario, theirs, ours, started)


def _conclude(client: str, scenario: str, theirs: Future[Json], ours: Future[Json], started: float) -> CellResult:
    try:
        reference = theirs.result()
    except UnsupportedError as error:
        return CellResult(client, scenario, 0, [], str(error))
    except Exception:
        broken = Found(client, 0, scenario, "/", traceback.format_exc(), "not told: it broke off on the reference")
        return CellResult(client, scenario, 0, [broken], None, time.monotonic() - started)
    try:
        here = ours.result()
    except Exception:
        # What breaks off on us alone is the largest of differences.
        here = traceback.format_exc()
    places = list(differences(reference, here))
    found = [
        Found(client, 0, scenario, place.path or "/", json.dumps(place.expected), json.dumps(place.actual))
        for place in places
    ]
    alike = count_leaves(reference) - sum(count_leaves(place.expected) for place in places if place.expected != ABSENT)
    # A client that could do nothing of the scenario saw nothing, and a number would look like a success.
    skipped = "the client has none of the calls" if not alike and not found else None
    return CellResult(client, scenario, alike, found, skipped, time.monotonic() - started)


def _submit(look: Callable[[], Json]) -> Future[Json]:
    """In a thread that nobody waits for when the harness is interrupted; a pool would."""
    future: Future[Json] = Future()

    def run() -> None:
        try:
            future.set_result(look())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


def compare_cell(client: str, scenario: str, expected: Running, actual: Running, *, fast: bool = False) -> CellResult:
    with closing(Table(client, expected, actual)) as table:
        return table.compare(scenario, fast=fast)


def count_leaves(value: Json) -> int:
    """Values that the client saw; what it has no call for is none."""
    if isinstance(value, dict) and value.keys() == {"unsupported"}:
        return 0
    if isinstance(value, dict):
        return sum(count_leaves(item) for item in value.values())
    if isinstance(value, list):
        return sum(count_leaves(item) for item in value)
    return 1
