"""Requests with very many elements: they are answered as a small one is, and hold nobody up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from oncelog.broker.handlers import APIS, Api
from oncelog.protocol.messages.api_versions import ApiVersionsRequest
from oncelog.testing import Broker
from tests.bad_input.conftest import Target
from tests.bad_input.large import Path, arrays, long_request
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, tolerating_resets
from tests.bad_input.requests import create_topic

ELEMENTS = int(os.environ.get("ONCELOG_ELEMENTS", "20000"))
"""`make fuzz` sends more."""
COMPUTING_SECONDS_MAX = 0.1
"""The aim is half of it; a core that others use as well computes more slowly."""
GROWTH_MB_MAX = 50
WRITES = frozenset(("create_topics", "delete_topics"))
"""They change the metadata, and have tests of their own."""

every_array = pytest.mark.parametrize(
    ("api", "path"),
    [case for case in arrays() if case[0].key.stem not in WRITES],
    ids=lambda value: value.key.stem if isinstance(value, Api) else ".".join(value),
)


NOT_COMPARED = frozenset(("write_txn_markers", "alter_client_quotas"))
"""The first writes; of the second, the requests made here name one entity many times, which each chunk refuses anew."""


def is_chunked(api: Api, path: Path) -> bool:
    module = import_module(f"oncelog.broker.handlers.{api.key.stem}")
    return path in [paths.request for paths in getattr(module, "CHUNKS", ())]


@pytest.fixture(scope="module")
def attacked() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": "false"}, subprocess=True) as broker:
        with RawClient(port_of(broker)) as client:
            create_topic(client, "topic")
            for api, path in arrays():
                if api.key.stem not in WRITES:
                    client.call(long_request(api, path, 2, "topic"), api.version_max)
        before_mb = memory_mb(broker)
        yield broker
        assert memory_mb(broker, peak=True) - before_mb <= GROWTH_MB_MAX


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def memory_mb(broker: Broker, *, peak: bool = False) -> int:
    with open(f"/proc/{broker.pid}/status") as status:
        values = dict(line.split(":", 1) for line in status)
    return int(values["VmHWM" if peak else "VmRSS"].split()[0]) // 1024


@every_array
@pytest.mark.timeout(60)
def test_nobody_waits_for_a_large_request(attacked: Broker, api: Api, path: Path) -> None:
    count = min(ELEMENTS, api.elements_max - len(path))
    request = long_request(api, path, count, "topic")
    with RawClient(port_of(attacked)) as client, RawClient(port_of(attacked)) as neighbour:
        attacked.take_loop_lag()
        client.send(request, api.version_max)
        client.socket.setblocking(False)
        while not has_answer(client):
            assert neighbour.call(ApiVersionsRequest(client_software_name="n", client_software_version="1"), 3).api_keys
        client.socket.settimeout(60)
        assert client.read_frame() is not None
    assert attacked.take_loop_lag().computing_seconds < COMPUTING_SECONDS_MAX


def has_answer(client: RawClient) -> bool:
    try:
        return bool(client.socket.recv(1, 2))
    except BlockingIOError:
        return False


@every_array
def test_more_elements_than_the_limit_close_the_connection(broker: LiveBroker, api: Api, path: Path) -> None:
    if len(path) > 1:
        return
    with RawClient(broker.port) as client, tolerating_resets():
        client.send(long_request(api, path, api.elements_max + 1, "topic"), api.version_max)
        client.assert_closed()


@pytest.mark.parametrize(
    ("api", "path"),
    [case for case in arrays() if is_chunked(*case) and case[0].key.stem not in NOT_COMPARED],
    ids=lambda value: str(getattr(value, "key", "")),
)
def test_the_answer_does_not_depend_on_the_chunks(
    broker: LiveBroker, target: Target, monkeypatch: pytest.MonkeyPatch, api: Api, path: Path
) -> None:
    request: Any = long_request(api, path, 1500, target.name)
    if "validate_only" in request._specs:
        request.validate_only = True
    with RawClient(broker.port) as client:
        in_chunks = client.call(request, api.version_max)
        monkeypatch.setattr(Api, "elements_at_once", 10**6)
        at_once = client.call(request, api.version_max)
    assert in_chunks == at_once


def test_every_api_says_how_long_its_arrays_may_be() -> None:
    assert all(api.elements_at_once <= api.elements_max <= 100_000 for api in APIS.values())
