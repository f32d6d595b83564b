"""The checker catches every anomaly in a history that has it, and finds nothing wrong with a sound one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faults.checker import check
from tests.faults.graph import components
from tests.faults.history import read_history

Step = tuple[Any, ...]


def send(key: int, offset: int | None, value: int) -> list[Any]:
    return ["s", key, offset, value]


def poll(**polled: list[list[Any]]) -> list[Any]:
    """poll(k0=[[offset, value], …])"""
    return ["p", {name.removeprefix("k"): entries for name, entries in polled.items()}]


def lines(*steps: Step) -> list[str]:
    """(process, type, f, v, more); a process that has nothing open is given an invocation of its own."""
    events: list[dict[str, Any]] = []
    is_open: set[int] = set()
    for process, kind, what, value, *more in steps:
        extra = more[0] if more else {}
        if kind != "invoke" and process not in is_open:
            events.append({"p": process, "type": "invoke", "f": what, "v": value} | extra)
        is_open.discard(process)
        if kind == "invoke":
            is_open.add(process)
        events.append({"p": process, "type": kind, "f": what, "v": value} | extra)
    return [json.dumps({"i": index, "t": index} | event) for index, event in enumerate(events)]


def names(*steps: Step) -> set[str]:
    return {anomaly.name for anomaly in check(read_history(lines(*steps)))}


def test_a_sound_history_has_nothing_wrong() -> None:
    assert (
        names(
            (0, "ok", "init", None, {"txid": "a", "epoch": 0}),
            (1, "ok", "assign", [0, 1]),
            (0, "ok", "txn", [send(0, 0, 1), send(1, 0, 2)], {"txid": "a", "epoch": 0}),
            (0, "fail", "txn", [send(0, 2, 3)], {"txid": "a", "epoch": 0}),
            (0, "info", "txn", [send(0, 4, 4), send(1, None, 5)], {"txid": "a", "epoch": 0}),
            (1, "ok", "poll", [poll(k0=[[0, 1]])]),
            (1, "ok", "txn", [poll(k0=[[4, 4]], k1=[[0, 2]]), send(1, 4, 6)], {"txid": "b", "epoch": 0}),
            (2, "info", "send", [send(1, None, 7)]),
            (1, "ok", "committed", {"group": "g", "offsets": {"0": 1}}),
            (1, "ok", "committed", {"group": "g", "offsets": {"0": 5}}),
            (1, "ok", "assign", [1]),
            (1, "ok", "poll", [poll(k1=[[2, 5], [4, 6]])]),
            (3, "ok", "ends", {"0": [2, 5], "1": [6, 6]}),
            (3, "ok", "ends", {"0": [6, 6], "1": [6, 6]}, {"final": True}),
            (3, "ok", "final", [poll(k0=[[0, 1], [4, 4]], k1=[[0, 2], [2, 5], [4, 6]])]),
            (3, "ok", "copied", {"source": [1, 2], "target": [2, 1]}),
        )
        == set()
    )


WRITES: list[Step] = [(0, "ok", "send", [send(0, offset, offset + 1) for offset in range(4)])]
READ_ALL: Step = (9, "ok", "final", [poll(k0=[[0, 1], [1, 2], [2, 3], [3, 4]])])

CASES: dict[str, list[Step]] = {
    "inconsistent-offsets": [*WRITES, (1, "ok", "send", [send(0, 2, 9)]), READ_ALL],
    "duplicate": [*WRITES, (1, "ok", "poll", [poll(k0=[[0, 1], [1, 2], [2, 3], [3, 4], [4, 1]])])],
    "phantom": [(1, "ok", "poll", [poll(k0=[[0, 77]])])],
    "misrouted": [(0, "ok", "send", [send(1, 0, 1)]), (1, "ok", "poll", [poll(k0=[[0, 1, "misrouted"]])])],
    "corrupt-value": [*WRITES, (1, "info", "poll", [poll(k0=[[0, 1, "corrupt-value"]])])],
    "G1a": [(0, "fail", "txn", [send(0, 0, 1)]), (1, "ok", "poll", [poll(k0=[[0, 1]])])],
    "lost-write": [*WRITES, (1, "ok", "poll", [poll(k0=[[0, 1], [2, 3]])])],
    "torn-txn": [
        (0, "ok", "txn", [send(0, 0, 1), send(1, 0, 2)]),
        (0, "ok", "txn", [send(1, 2, 3)]),
        (1, "ok", "poll", [poll(k0=[[0, 1]], k1=[[2, 3]])]),
    ],
    "unseen": [*WRITES, (1, "ok", "send", [send(0, None, 8)]), READ_ALL],
    "precommitted-read": [(0, "ok", "txn", [send(0, 0, 1), poll(k0=[[0, 1]])])],
    "int-poll-skip": [*WRITES, (1, "ok", "poll", [poll(k0=[[0, 1], [2, 3]])]), READ_ALL],
    "int-nonmonotonic-poll": [*WRITES, (1, "fail", "poll", [poll(k0=[[1, 2], [0, 1]])])],
    "int-nonmonotonic-send": [(0, "ok", "txn", [send(0, 1, 2), send(0, 0, 1)])],
    "poll-skip": [
        *WRITES,
        (1, "ok", "assign", [0]),
        (1, "ok", "poll", [poll(k0=[[0, 1]])]),
        (1, "ok", "poll", [poll(k0=[[2, 3]])]),
        READ_ALL,
    ],
    "nonmonotonic-poll": [
        *WRITES,
        (1, "ok", "assign", [0]),
        (1, "ok", "poll", [poll(k0=[[0, 1], [1, 2]])]),
        (1, "ok", "assign", [0, 1]),
        (1, "ok", "poll", [poll(k0=[[1, 2]])]),
    ],
    "nonmonotonic-send": [(0, "ok", "send", [send(0, 1, 2)]), (0, "ok", "send", [send(0, 0, 1)])],
    "G1c": [
        (0, "invoke", "txn", None),
        (1, "invoke", "txn", None),
        (0, "ok", "txn", [send(0, 0, 1), poll(k1=[[0, 2]])]),
        (1, "ok", "txn", [send(1, 0, 2), poll(k0=[[0, 1]])]),
    ],
    "G1c-realtime": [(1, "ok", "poll", [poll(k0=[[0, 1]])]), (0, "ok", "send", [send(0, 0, 1)])],
    "offset-regress": [
        (0, "ok", "committed", {"group": "g", "offsets": {"0": 5}}),
        (1, "ok", "committed", {"group": "g", "offsets": {"0": 4}}),
    ],
    "hung-txn": [(0, "ok", "ends", {"0": [3, 5]}, {"final": True})],
    "EOS-dup": [(0, "ok", "copied", {"source": [1, 2], "target": [1, 2, 1]})],
    "EOS-lost": [(0, "ok", "copied", {"source": [1, 2], "target": [1]})],
    "zombie-write": [
        (0, "ok", "init", None, {"txid": "a", "epoch": 0}),
        (1, "ok", "init", None, {"txid": "a", "epoch": 1}),
        (0, "ok", "txn", [send(0, 0, 1)], {"txid": "a", "epoch": 0}),
    ],
}
COMPANIONS = {
    "inconsistent-offsets": {"lost-write", "unseen"},
    "torn-txn": {"lost-write"},
    "lost-write": {"int-poll-skip"},
    "duplicate": {"int-nonmonotonic-poll"},
}
"""What cannot but come along."""


@pytest.mark.parametrize("anomaly", CASES)
def test_an_anomaly_is_caught_and_nothing_else(anomaly: str) -> None:
    found = names(*CASES[anomaly])
    assert anomaly in found
    assert found - {anomaly} <= COMPANIONS.get(anomaly, {"unseen"})


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [*WRITES, (1, "ok", "poll", [poll(k0=[[0, 1]])]), (1, "ok", "poll", [poll(k0=[[2, 3]])]), READ_ALL],
            id="a member of a group may skip: another had the partition",
        ),
        pytest.param(
            [*WRITES, (1, "ok", "poll", [poll(k0=[[0, 1], [2, 3]])], {"reb": ["0"]}), READ_ALL],
            id="a rebalance within a poll",
        ),
        pytest.param(
            [
                *WRITES,
                (1, "ok", "assign", [0]),
                (1, "ok", "poll", [poll(k0=[[1, 2]])]),
                (1, "ok", "assign", [1]),
                (1, "ok", "assign", [0]),
                (1, "ok", "poll", [poll(k0=[[0, 1]])]),
            ],
            id="what was given up may be read anew",
        ),
        pytest.param(
            [(0, "info", "txn", [send(0, None, 1)]), (1, "ok", "final", [poll(k0=[])])],
            id="what nobody knows need not have happened",
        ),
        pytest.param(
            [
                (0, "invoke", "ends", None),
                (1, "ok", "ends", {"0": [5, 5]}),
                (0, "ok", "ends", {"0": [4, 4]}),
            ],
            id="answers that crossed each other",
        ),
        pytest.param(
            [
                (0, "invoke", "txn", None, {"txid": "a", "epoch": 0}),
                (1, "ok", "init", None, {"txid": "a", "epoch": 1}),
                (0, "ok", "txn", [send(0, 0, 1)], {"txid": "a", "epoch": 0}),
            ],
            id="a commit that was under way when the newer producer came",
        ),
    ],
)
def test_what_looks_odd_but_is_allowed(steps: list[Step]) -> None:
    assert names(*steps) == set()


def test_an_unknown_outcome_counts_as_soon_as_a_part_of_it_was_read() -> None:
    torn: list[Step] = [
        (0, "info", "txn", [send(0, None, 1), send(1, None, 2)]),
        (1, "ok", "final", [poll(k0=[[0, 1]], k1=[])]),
    ]
    assert names(*torn) == {"torn-txn", "unseen"}


def test_components_of_a_long_cycle_and_none_of_a_long_chain() -> None:
    chain = {number: [number + 1] for number in range(5000)}
    assert list(components(chain)) == []
    assert [len(found) for found in components(chain | {5000: [0]})] == [5001]
