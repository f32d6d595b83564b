"""More peers than a process with few file descriptors can have: the log keeps those that it needs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from oncelog.protocol.messages.metadata import MetadataRequest
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import batch, create_topic, produce, produce_codes
from tests.bad_input.test_connections import METADATA_VERSION, closing, open_until_refused

DESCRIPTORS_MAX = 90
CONNECTIONS_MAX = 23


class Served(NamedTuple):
    port: int
    log: Path


@pytest.fixture
def poor_broker(tmp_path: Path) -> Iterator[Served]:
    """A broker with a hard limit, which it cannot raise."""
    serve = [sys.executable, "-m", "oncelog", "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    limited = ["sh", "-c", f'ulimit -n {DESCRIPTORS_MAX}; exec "$0" "$@"', *serve]
    log = tmp_path / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            printed = ""
            while "started" not in printed:
                line = process.stdout.readline()
                assert line, log.read_text()
                printed += line
            found = re.search(r"listening on 127\.0\.0\.1:(\d+)", printed)
            assert found
            yield Served(int(found[1]), log)
        finally:
            process.terminate()
            code = process.wait(60)
    assert code == 0, log.read_text()


def test_records_are_durable_while_no_connection_more_is_admitted(poor_broker: Served) -> None:
    with RawClient(poor_broker.port) as known:
        served, refused = open_until_refused(poor_broker.port, 100)
        with closing(served):
            assert (len(served), refused) == (CONNECTIONS_MAX - 1, 101 - CONNECTIONS_MAX)
            # Each is a directory, a file for the leader epoch and one for the records, all to be synced.
            create_topic(known, "wide", partitions=40)
            for index in range(40):
                assert produce_codes(known.call(produce("wide", batch(), index=index), 12)) == [0]
            for client in served:
                client.call(MetadataRequest(topics=[]), METADATA_VERSION)
    log = poor_broker.log.read_text()
    assert f"{CONNECTIONS_MAX} are open, and the rest of the {DESCRIPTORS_MAX} files" in log
    assert "ERROR" not in log


def test_a_flush_of_more_partitions_than_there_are_descriptors(poor_broker: Served) -> None:
    with RawClient(poor_broker.port) as known:
        served, _ = open_until_refused(poor_broker.port, 30)
        with closing(served):
            create_topic(known, "wide", partitions=40)
            request = produce("wide", batch())
            request.topic_data[0].partition_data = [
                produce("wide", batch(), index=index).topic_data[0].partition_data[0] for index in range(40)
            ]
            for _ in range(3):
                assert produce_codes(known.call(request, 12)) == [0] * 40
