"""The harness itself: a broker with a seeded fault must turn its cells red, and one without must not."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from conformance import card
from conformance.__main__ import main
from conformance.brokers import APACHE, ONCELOG, Running
from conformance.card import judge_clients, render
from conformance.cells import CellResult, compare_cell, compare_in_turn, count_leaves
from conformance.wire.compare import Report, advertised, generated_cases, run_cases, wire_cases
from conformance.wire.good_requests import MAKERS
from conformance.wire.link import Link
from conformance.wire.listed import Found, Listed, Verdict, judge, read_listed
from conformance.wire.state import SETTINGS
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.messages import request_class
from oncelog.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

FOUND = Found("Fetch", 4, "good", "/error_code", "0", "1")
LISTED = Listed("an-id", "Fetch", "4-6", "g*d", "/error_code", "0", "*", "a reason")


@pytest.fixture
def healthy() -> Iterator[Running]:
    """A broker that has looked up all its handlers, so that faults seeded later do not reach it."""
    with Broker(SETTINGS) as broker:
        running = Running(broker.bootstrap_servers, None)
        link = Link(running.address)
        for key, version in advertised():
            if key not in (ApiKey.PRODUCE, ApiKey.JOIN_GROUP):
                link.ask(request_class(key)(), version)
        link.close()
        yield running


@pytest.fixture
def seed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[ApiKey, Callable[[Any], Any]], Running]]:
    """Starts a broker in which the answers of one API go through a function first."""
    started: list[Broker] = []

    def start(key: ApiKey, spoil: Callable[[Any], Any]) -> Running:
        module = import_module(f"oncelog.broker.handlers.{key.stem}")
        handle = module.handle

        def spoiled(request: Any, context: Any) -> Any:
            response = handle(request, context)
            return _spoil_later(response, spoil) if inspect.isawaitable(response) else spoil(response)

        monkeypatch.setattr(module, "handle", spoiled)
        broker = Broker(SETTINGS)
        broker.start()
        started.append(broker)
        return Running(broker.bootstrap_servers, None)

    yield start
    for broker in started:
        broker.stop()


async def _spoil_later(response: Awaitable[Any], spoil: Callable[[Any], Any]) -> Any:
    return spoil(await response)


def compare(left: Running, right: Running, pattern: str) -> Report:
    return run_cases(wire_cases(pattern), left.address, right.address, lambda _: None)


def offset_by_one(response: Any) -> Any:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.offset += 1
    return response


def wrong_error(response: Any) -> Any:
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    return response


def hang_up(_: Any) -> Any:
    raise ProtocolError("seeded")


def fail(_: Any) -> Any:
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "seeded")


def forget_one(response: Any) -> Any:
    response.topics = response.topics[:-1]
    return response


def test_a_broker_does_not_differ_from_itself(
    healthy: Running, seed: Callable[[ApiKey, Callable[[Any], Any]], Running]
) -> None:
    report = compare(healthy, seed(ApiKey.LIST_OFFSETS, lambda response: response), "ListOffsets.[45]")
    assert report.found == []
    assert report.cells.keys() == {(ApiKey.LIST_OFFSETS, 4), (ApiKey.LIST_OFFSETS, 5)}


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (offset_by_one, "/topics/w-plain/partitions/0/offset"),
        (wrong_error, "error_code"),
        (hang_up, "/"),
        (fail, "error_code"),
        (forget_one, "/topics/w-plain"),
    ],
)
def test_a_seeded_fault_is_found(
    healthy: Running,
    seed: Callable[[ApiKey, Callable[[Any], Any]], Running],
    spoil: Callable[[Any], Any],
    field: str,
) -> None:
    # Preparation waits for topics by this very API at version 7, so that the fault is seeded for another.
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH if spoil is not offset_by_one else ApiKey.LIST_OFFSETS
    found = compare(healthy, seed(key, spoil), f"{key.camel}.4").found
    assert any(difference.field.endswith(field) for difference in found)
    assert not judge(found, []).stale
    assert judge(found, []).unlisted == found


def high_watermark_ahead(response: Any) -> Any:
    for topic in response.responses:
        for partition in topic.partitions:
            partition.high_watermark += 1
    return response


def null_for_empty(response: Any) -> Any:
    for result in response.results:
        result.error_message = "" if result.error_message is None else None
    return response


@pytest.mark.parametrize(
    ("key", "case", "spoil", "field"),
    [
        (ApiKey.FETCH, "Fetch.12", high_watermark_ahead, "/responses/w-plain/partitions/0/high_watermark"),
        (ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs.4", null_for_empty, "/results/4 1/error_message"),
    ],
)
def test_one_value_that_is_wrong_is_found_at_its_place(
    healthy: Running,
    seed: Callable[[ApiKey, Callable[[Any], Any]], Running],
    key: ApiKey,
    case: str,
    spoil: Callable[[Any], Any],
    field: str,
) -> None:
    found = compare(healthy, seed(key, spoil), case).found
    assert (field, "good") in {(difference.field, difference.case) for difference in found}


@pytest.fixture
def command(
    healthy: Running, seed: Callable[[ApiKey, Callable[[Any], Any]], Running], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """`python -m conformance wire` with a broker whose OffsetForLeaderEpoch is wrong, and a table of differences."""
    wrong = seed(ApiKey.OFFSET_FOR_LEADER_EPOCH, wrong_error)
    cases = wire_cases("OffsetForLeaderEpoch.4")

    def run(listed: list[Listed], pattern: str = "*") -> int:
        brokers = {APACHE: healthy, ONCELOG: wrong}
        monkeypatch.setattr(card, "open_broker", lambda name, _: nullcontext(brokers[name]))
        monkeypatch.setattr(card, "read_listed", lambda: listed)
        monkeypatch.setattr(card, "wire_cases", lambda _: cases)
        return main(["wire", "--case", pattern])

    return run


def test_the_command_fails_on_a_seeded_fault(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    meant = Listed("meant", "OffsetForLeaderEpoch", "4", "*", "*/error_code", "3", "5", "seeded")
    assert command([], "Off*") == 1
    assert "not listed: OffsetForLeaderEpoch v4 | " in capsys.readouterr().out
    assert command([meant], "Off*") == 0
    assert command([meant._replace(actual="6")], "Off*") == 1


def test_the_command_fails_on_a_line_that_no_longer_differs_and_on_what_it_did_not_ask(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    meant = Listed("meant", "OffsetForLeaderEpoch", "4", "*", "*/error_code", "3", "5", "seeded")
    over = meant._replace(id="over", api="Fetch")
    assert command([meant, over]) == 1
    assert "listed, but no longer different: over\n" in capsys.readouterr().out
    assert command([meant]) == 1
    assert "not asked: Fetch.4: no good request" in capsys.readouterr().out


def no_aborted_transactions(response: Any) -> Any:
    for topic in response.responses:
        for partition in topic.partitions:
            partition.aborted_transactions = [] if partition.aborted_transactions else partition.aborted_transactions
    return response


def another_refusal(response: Any) -> Any:
    for topic in response.topics:
        if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            topic.error_code = ErrorCode.INVALID_REQUEST
    return response


@pytest.mark.parametrize(
    ("scenario", "key", "spoil", "field"),
    [
        ("list_offsets", ApiKey.LIST_OFFSETS, offset_by_one, "/written/earliest/ok/offset"),
        ("admin_errors", ApiKey.CREATE_TOPICS, another_refusal, "/create what exists/error"),
        ("isolation", ApiKey.FETCH, no_aborted_transactions, "/committed, one is open[1]/value"),
    ],
)
def test_a_client_sees_a_seeded_fault(
    healthy: Running,
    seed: Callable[[ApiKey, Callable[[Any], Any]], Running],
    scenario: str,
    key: ApiKey,
    spoil: Callable[[Any], Any],
    field: str,
) -> None:
    cell = compare_cell("confluent", scenario, healthy, seed(key, spoil), fast=True)
    assert field in {found.field for found in cell.found}
    assert judge_clients([cell]).unlisted == cell.found
    text = render([cell], Verdict(cell.found, [], {}), Report(0, {}, {}, []), Verdict([], [], {}))
    assert f"**{len(cell.found)} red**" in text


def test_a_scenario_that_breaks_off_is_red(
    healthy: Running, seed: Callable[[ApiKey, Callable[[Any], Any]], Running]
) -> None:
    cell = compare_cell("confluent", "create_topics", healthy, seed(ApiKey.CREATE_TOPICS, fail), fast=True)
    assert cell.found


def test_every_api_has_a_good_request() -> None:
    assert {key for key, _ in advertised()} <= MAKERS.keys()


def test_every_cell_has_a_case() -> None:
    assert {case.name for case in generated_cases()} == {f"{key.camel}.{version}" for key, version in advertised()}


def test_a_listed_difference_is_not_told() -> None:
    assert judge([FOUND], [LISTED]) == Verdict([], [], {"an-id": 1})


@pytest.mark.parametrize(
    "other",
    [
        FOUND._replace(api="Produce"),
        FOUND._replace(version=7),
        FOUND._replace(case="bad"),
        FOUND._replace(field="/records"),
        FOUND._replace(expected="3"),
    ],
)
def test_another_difference_is_told_and_the_line_is_stale(other: Found) -> None:
    assert judge([other], [LISTED]) == Verdict([other], [LISTED], {"an-id": 0})


def test_the_table_of_differences_can_be_read() -> None:
    assert all(entry.reason and entry.id for entry in read_listed())


def test_what_a_client_has_no_call_for_is_not_counted() -> None:
    assert count_leaves({"a": {"ok": [1, 2]}, "b": {"unsupported": "no such call"}}) == 2


def test_what_differs_is_not_counted_as_alike() -> None:
    cell = compare_in_turn("confluent", "a", lambda: {"a": 1, "b": [2, 3], "c": 4}, lambda: {"a": 1, "b": [2], "d": 5})
    assert [found.field for found in cell.found] == ["/b", "/c", "/d"]
    assert cell.alike == 1


def test_a_skipped_cell_says_why() -> None:
    cell = CellResult("confluent", "restart", 0, [], "the broker belongs to somebody else")
    text = render([cell], Verdict([], [], {}), Report(0, {}, {}, []), Verdict([], [], {}))
    assert "- confluent, restart: the broker belongs to somebody else" in text
