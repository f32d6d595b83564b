"""Runs the cases on two brokers at once and collects what was asked and what differs."""

from __future__ import annotations

import fnmatch
import json
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from conformance.observations import Difference, differences
from conformance.wire.good_requests import good_request
from conformance.wire.listed import Found
from conformance.wire.mutations import changed, mutations
from conformance.wire.rows import ROWS
from conformance.wire.state import prepare
from conformance.wire.talk import PASSING, Step, Talk
from oncelog.broker.handlers import APIS
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.messages import request_class

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

Cell = tuple[ApiKey, int]
AUTO_CREATE_IS_ASKED_FOR_SINCE = 4
REFERENCE_SILENCE_S = 5.0
UNSPECIFIC = {
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an"
    " incompatible broker. See the broker logs for more details.",
}
"""What Kafka says of any request that is invalid."""
ENDS_KAFKA = {(ApiKey.ADD_RAFT_VOTER, "listeners.name empty")}
"""Not sent: Kafka's controller ends its process over it (`The provided listener name is null or empty string`)."""
GOOD = "good"
BROKE_OFF = "the dialogue broke off"


class Case(NamedTuple):
    name: str
    run: Callable[[Talk], None]


class Report(NamedTuple):
    steps: int
    cells: dict[Cell, int]
    """Requests by API and version."""
    asked: dict[str, set[str]]
    """Labels of the requests, by case."""
    found: list[Found]


def advertised() -> set[Cell]:
    return {(api.key, version) for api in APIS.values() for version in range(api.version_min, api.version_max + 1)}


ABOUT_ALL = (
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.ELECT_LEADERS,
    ApiKey.METADATA,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
"""Can tell of all that a broker holds, and are asked before other cases leave traces there."""


def generated_cases() -> Iterator[Case]:
    """One for each API and version: the good request, then each way to make it bad."""
    for key, version in sorted(advertised(), key=lambda cell: (cell[0] not in ABOUT_ALL, cell)):
        yield Case(f"{key.camel}.{version}", lambda talk, key=key, version=version: _mutate(talk, key, version))  # type: ignore[misc]


def _mutate(talk: Talk, key: ApiKey, version: int) -> None:
    first = good_request(key, talk, version)
    # Neither broker is the coordinator of any share state, and that does not pass.
    passing = () if key.stem.endswith(("share_group_state", "share_group_state_summary")) else PASSING
    talk.say(first, version, GOOD, passing=passing)
    for label, path, value in mutations(first, version):
        if (key, label) in ENDS_KAFKA:
            continue
        talk.names.forget()
        request = changed(good_request(key, talk, version), path, value)
        talk.say(request, version, label, passing=passing)
    if key == ApiKey.METADATA and version < AUTO_CREATE_IS_ASKED_FOR_SINCE:
        # Kafka creates a topic behind its answer, and the next case asks for all topics.
        talk.await_topic(f"unknown-Metadata.{version}")


def run_cases(cases: Iterable[Case], expected: str, actual: str, tell: Callable[[str], None] = print) -> Report:
    """Both brokers are prepared, and then asked the same, each by a thread."""
    report = Report(0, {}, {}, [])
    # Kafka is known to be silent in places, and each costs this time; silence of ours is looked for with patience.
    talks = [Talk(expected, REFERENCE_SILENCE_S), Talk(actual)]
    count = 0
    with ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(prepare, talks))
            for case in cases:
                left, right = pool.map(partial(play, case), talks)
                count += len(left)
                report.asked[case.name] = {step.label for step in left}
                for step in left:
                    cell = (step.api, step.version)
                    report.cells[cell] = report.cells.get(cell, 0) + 1
                found = list(_differences(case.name, left, right))
                report.found.extend(found)
                if found:
                    tell(f"{case.name}: {len(found)} differences in {len(left)} answers")
        finally:
            for talk in talks:
                talk.close()
    return report._replace(steps=count)


def play(case: Case, talk: Talk) -> list[Step]:
    talk.begin(case.name)
    try:
        case.run(talk)
    except Exception:
        # A dialogue that cannot go on is told as a difference at the step that it did not reach.
        talk.steps.append(Step(ApiKey.API_VERSIONS, 0, BROKE_OFF, traceback.format_exc()))
    return talk.steps


def gaps(asked: Mapping[str, Collection[str]]) -> list[str]:
    """What a whole run has to ask, and these labels by case show that it did not."""
    missing = []
    for key, version in sorted(advertised()):
        name = f"{key.camel}.{version}"
        labels = asked.get(name, ())
        if GOOD not in labels:
            missing.append(f"{name}: no good request")
        if len(labels) < 2 and any(version in field.versions for field in request_class(key).fields()):
            missing.append(f"{name}: no bad request")
    names = [f"{case}: {label}" for case, labels in asked.items() for label in labels]
    missing += [f"row {row}: {pattern}" for row, pattern in ROWS.items() if not fnmatch.filter(names, pattern)]
    return missing


def folded(found: Iterable[Difference]) -> list[Difference]:
    """Where an error code differs, the values beside and below it differ with it and are not told."""
    places = list(found)
    refused = tuple(place.path.removesuffix("error_code") for place in places if place.path.endswith("/error_code"))
    return [
        place
        for place in places
        if (place.path.endswith("/error_code") or not place.path.startswith(refused)) and not _says_more(place)
    ]


def _says_more(place: Difference) -> bool:
    """We give a reason where Kafka gives none, or one that begins as Kafka's does, since scripts look for that.

    Null for an empty text, or the other way round, is told.
    """
    if not place.path.endswith("error_message") or not isinstance(place.actual, str) or not place.actual:
        return False
    expected = place.expected or ""
    return isinstance(expected, str) and (expected in UNSPECIFIC or place.actual.startswith(expected.rstrip(".")))


def _differences(case: str, left: list[Step], right: list[Step]) -> Iterator[Found]:
    for expected, actual in zip(left, right, strict=False):
        if expected[:3] != actual[:3]:
            yield Found(
                expected.api.camel,
                expected.version,
                case,
                "the step itself",
                str(expected)[-1500:],
                str(actual)[-1500:],
            )
            return
        name = expected.label if case == f"{expected.api.camel}.{expected.version}" else f"{case}: {expected.label}"
        for place in folded(differences(expected.seen, actual.seen)):
            yield Found(
                expected.api.camel,
                expected.version,
                name,
                place.path or "/",
                json.dumps(place.expected),
                json.dumps(place.actual),
            )
    if len(left) != len(right):
        longer = max(left, right, key=len)[min(len(left), len(right))]
        yield Found(longer.api.camel, longer.version, case, "number of steps", str(len(left)), f"{len(right)} {longer}")


def wire_cases(pattern: str = "*") -> list[Case]:
    """All cases whose name fits the pattern."""
    from conformance.wire.dialogues import dialogue_cases

    return [case for case in (*generated_cases(), *dialogue_cases()) if fnmatch.fnmatchcase(case.name, pattern)]
