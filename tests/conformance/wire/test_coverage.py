"""The wire level asks every version of every advertised API, well and badly, and each row of the bad input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.wire.compare import BROKE_OFF, GOOD, advertised, gaps, play, wire_cases
from conformance.wire.rows import NOT_COMPARED, ROW_COUNT, ROWS
from conformance.wire.state import SETTINGS, prepare
from conformance.wire.talk import Talk
from oncelog.testing import Broker
from tests.bad_input import rows as bad_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.wire.talk import Step

Played = dict[str, list["Step"]]


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    """All that a run sends, sent to an Oncelog alone: whether it is answered as by Kafka is not the question here."""
    with Broker(SETTINGS) as broker:
        talk = Talk(broker.bootstrap_servers)
        prepare(talk)
        yield {case.name: play(case, talk) for case in wire_cases()}
        talk.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_everything_is_asked(played: Played) -> None:
    assert gaps({case: {step.label for step in steps} for case, steps in played.items()}) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_dialogue_comes_to_its_end(played: Played) -> None:
    ends = [steps[-1] for steps in played.values() if steps]
    assert [step.seen for step in ends if step.label == BROKE_OFF] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_good_requests_are_answered(played: Played) -> None:
    for key, version in advertised():
        (good,) = (step for step in played[f"{key.camel}.{version}"] if step.label == GOOD)
        assert isinstance(good.seen, dict), f"{key.camel} v{version}: {good.seen}"


def test_what_was_not_asked_is_told() -> None:
    asked = {f"{key.camel}.{version}": {GOOD, "a field empty"} for key, version in advertised()}
    missing = gaps(asked)
    assert all(gap.startswith("row ") for gap in missing)
    assert len(missing) == len(ROWS)
    asked["Fetch.4"].discard("a field empty")
    del asked["Produce.3"]
    assert set(gaps(asked)) - set(missing) == {
        "Fetch.4: no bad request",
        "Produce.3: no good request",
        "Produce.3: no bad request",
    }


def test_no_row_of_the_bad_input_is_forgotten() -> None:
    assert ROW_COUNT == bad_input.ROW_COUNT
    assert ROWS.keys() | NOT_COMPARED.keys() == set(range(1, ROW_COUNT + 1))
    assert not ROWS.keys() & NOT_COMPARED.keys()
