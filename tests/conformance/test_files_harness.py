"""The harness itself, at the level of files: a fault that is seeded into a directory must turn its cells red."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from conformance.card import judge_clients
from conformance.cells import compare_in_turn
from conformance.files import workload
from conformance.files.checks import (
    FEW_PARTITIONS,
    NAME,
    by_key,
    continue_with_oncelog,
    dump,
    expected_after_exchange,
    filled_by_oncelog,
    find_errors,
)
from conformance.preparation import warm_up
from conformance.reference.ports import free_ports
from oncelog.protocol.records.batch import HEADER_SIZE
from oncelog.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conformance.client import Json

LOG = "00000000000000000000.log"
TRANSACTION = ' key: {"transactionalId":"a"} payload: {"transactionStatus":%d,"producerId":%d}'


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as the checks have it, after a clean stop with transactions open."""
    directory = tmp_path_factory.mktemp("sound")
    with Broker(FEW_PARTITIONS, data_dir=directory) as broker:
        warm_up(broker.bootstrap_servers)
        workload.create_topics(broker.bootstrap_servers)
        with closing(workload.Workload(broker.bootstrap_servers)) as work:
            work.write()
            work.open_transactions()
            broker.stop()
    return directory


@pytest.fixture
def spoiled(sound: Path, tmp_path: Path) -> Path:
    """A copy in which a bit of a record is another."""
    directory = tmp_path / "spoiled"
    shutil.copytree(sound, directory)
    segment = directory / "files-none-0" / LOG
    content = bytearray(segment.read_bytes())
    content[HEADER_SIZE + 20] ^= 1
    segment.write_bytes(content)
    return directory


def red(look: Callable[[], Json], look_here: Callable[[], Json]) -> list[str]:
    """The places of differences that no line lists."""
    cell = compare_in_turn(NAME, "a check", look, look_here)
    return [found.field for found in judge_clients([cell]).unlisted]


def test_verify_log_is_red_over_a_flipped_bit_alone(sound: Path, spoiled: Path) -> None:
    assert red(partial(find_errors, sound), partial(find_errors, sound)) == []
    assert red(partial(find_errors, sound), partial(find_errors, spoiled)) == ["/sound", "/errors"]


@pytest.mark.java
def test_dump_log_is_red_over_a_flipped_bit_alone(java: None, sound: Path, spoiled: Path) -> None:
    look = partial(dump, sound, ["files-none"], "--print-data-log")
    look_here = partial(dump, spoiled, ["files-none"], "--print-data-log")
    assert "/complaints" in red(look, look_here)


def test_another_state_of_a_transaction_is_red_and_another_producer_is_not() -> None:
    look = partial(by_key, TRANSACTION % (4, 1000))
    key = json.dumps({"transactionalId": "a"}, separators=(",", ":"))
    assert red(look, partial(by_key, TRANSACTION % (4, 2000))) == []
    assert red(look, partial(by_key, TRANSACTION % (5, 1000))) == [f"/{key}[0]/transactionStatus"]


def abort_all(work: workload.Workload) -> None:
    for fate in ("commit", "abort"):
        work.producers[fate].abort()


def test_an_exchange_that_loses_the_open_transaction_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To whoever reads, it looks as if it had been aborted."""
    monkeypatch.setattr(workload, "OPEN_TIMEOUT_MS", 3000)
    monkeypatch.setattr(workload.Workload, "end_transactions", abort_all)
    address = f"127.0.0.1:{free_ports(1)[0]}"

    def exchange() -> Json:
        with filled_by_oncelog(tmp_path, address) as work:
            return continue_with_oncelog(work, tmp_path, address)

    assert red(expected_after_exchange, exchange) == ["/files-commit"]
