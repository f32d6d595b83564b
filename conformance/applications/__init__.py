"""Whole applications, each with scenarios of its own: they bring more than one client, and cannot be told each call."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from conformance.applications import spark, streams
from conformance.cells import CellResult, compare
from conformance.scenarios.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.brokers import Running
    from conformance.client import Json


class Application(NamedTuple):
    version: Callable[[], str]
    missing: Callable[[], str | None]
    scenario: Callable[[Run], Json]


APPLICATIONS = {
    "streams": Application(streams.version, streams.missing, streams.word_count),
    "spark": Application(spark.version, spark.missing, spark.batch_and_stream),
}


def compare_application(name: str, expected: Running, actual: Running) -> CellResult:
    _, missing, scenario = APPLICATIONS[name]
    if (reason := missing()) is not None:
        return CellResult(name, scenario.__name__, 0, [], reason)

    def look(broker: Running) -> Json:
        run = Run(uuid.uuid4().hex[:8], address=broker.address)
        return run.without_id(scenario(run))

    return compare(name, scenario.__name__, lambda: look(expected), lambda: look(actual))
