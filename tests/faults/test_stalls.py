"""The broker's event loop stalls, or the whole process is stopped, for longer than any session or transaction may last.
Whoever has sent a heartbeat or an EndTxn meanwhile loses nothing by it; whoever is silent afterwards still expires.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import pytest
import uvloop

from oncelog.broker.base import event_loop
from oncelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.heartbeat import HeartbeatRequest
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.messages.sync_group import SyncGroupRequest
from oncelog.protocol.schema import Message
from oncelog.testing import Broker
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import create_topic
from tests.transactions.wire_producer import END, OLD, TxnProducer, port_of

SESSION_MS = 2000
STALL_SECONDS = 1.5 * SESSION_MS / 1000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": f"{SESSION_MS}",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
JOIN, SYNC, HEARTBEAT, CONSUMER_HEARTBEAT, DESCRIBE = 9, 5, 4, 1, 6


class Stalling(Protocol):
    """A broker that can be kept from doing anything."""

    port: int

    def begin_stall(self) -> None: ...

    def end_stall(self) -> None: ...


class BlockedLoop:
    """A callback holds the event loop."""

    def __init__(self, broker: LiveBroker) -> None:
        self.port = broker.port
        self._broker = broker
        self._ended = threading.Event()

    def begin_stall(self) -> None:
        begun = threading.Event()

        def stall() -> None:
            begun.set()
            self._ended.wait()

        self._broker.loop.call_soon_threadsafe(stall)
        begun.wait()

    def end_stall(self) -> None:
        self._ended.set()


class StoppedProcess:
    """SIGSTOP, as a debugger, a container's freezer or a hypervisor does it."""

    def __init__(self, broker: Broker) -> None:
        self.port = port_of(broker)
        self._pid = broker.pid

    def begin_stall(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def end_stall(self) -> None:
        os.kill(self._pid, signal.SIGCONT)


@pytest.fixture(params=["asyncio", "uvloop", "SIGSTOP"])
def broker(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stalling]:
    if request.param == "SIGSTOP":
        with Broker(SETTINGS, subprocess=True) as process:
            yield StoppedProcess(process)
        return
    monkeypatch.setattr(event_loop, "run", asyncio.run if request.param == "asyncio" else uvloop.run)
    live = LiveBroker(tmp_path / "data", SETTINGS)
    yield BlockedLoop(live)
    live.stop()


@contextmanager
def stalled(broker: Stalling) -> Iterator[None]:
    """For longer than a session. What is sent within the block lies in the broker's sockets until the end."""
    broker.begin_stall()
    ends = time.monotonic() + STALL_SECONDS
    try:
        yield
        time.sleep(max(0.0, ends - time.monotonic()))
    finally:
        broker.end_stall()


class Member:
    """The only member of a group, with the heartbeat that it has to send."""

    def __init__(self, broker: Stalling) -> None:
        self.client = RawClient(broker.port)
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.heartbeat: tuple[Message, int]
        self._sent = -1
        (found,) = self.client.call(FindCoordinatorRequest(coordinator_keys=[self.group]), 6).coordinators
        assert found.error_code == 0

    def join(self) -> Self:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        request.member_id = self.client.call(request, JOIN).member_id
        generation = self.client.call(request, JOIN).generation_id
        member = {"group_id": self.group, "member_id": request.member_id, "generation_id": generation}
        sync = SyncGroupRequest(**member, protocol_type="consumer", protocol_name="range")
        assert self.client.call(sync, SYNC).error_code == 0
        self.heartbeat = HeartbeatRequest(**member), HEARTBEAT
        return self

    def join_consumer_group(self) -> Self:
        member: dict[str, Any] = {"group_id": self.group, "member_id": uuid.uuid4().hex}
        request = ConsumerGroupHeartbeatRequest(
            **member, rebalance_timeout_ms=SESSION_MS, subscribed_topic_names=["t"], topic_partitions=[]
        )
        joined = self.client.call(request, CONSUMER_HEARTBEAT)
        assert joined.error_code == 0
        self.heartbeat = (
            ConsumerGroupHeartbeatRequest(**member, member_epoch=joined.member_epoch),
            CONSUMER_HEARTBEAT,
        )
        return self

    def reconnect(self, broker: Stalling) -> None:
        """The system accepts the connection, though the broker does not."""
        self.client = RawClient(broker.port)

    def send_heartbeat(self) -> None:
        self._sent = self.client.send(*self.heartbeat)

    def read_heartbeat(self) -> int:
        code: int = self.client.read_answer(*self.heartbeat, self._sent).error_code
        return code

    @property
    def group_state(self) -> str:
        (group,) = self.client.call(DescribeGroupsRequest(groups=[self.group]), DESCRIBE).groups
        state: str = group.group_state
        return state


def test_time_that_the_broker_lost_is_not_charged_to_clients(broker: Stalling) -> None:
    classic, reconnecting, silent = (Member(broker).join() for _ in range(3))
    consumer = Member(broker).join_consumer_group()
    create_topic(classic.client, "t")
    producer = TxnProducer(RawClient(broker.port), OLD, timeout_ms=SESSION_MS)
    assert producer.add("t") == {("t", 0): 0}
    members = (classic, consumer, reconnecting)
    for member in members:
        member.send_heartbeat()
        assert member.read_heartbeat() == 0
    end = producer.end_request()
    with stalled(broker):
        reconnecting.reconnect(broker)
        for member in members:
            member.send_heartbeat()
        ended = producer.client.send(end, END[OLD])
    assert [member.read_heartbeat() for member in members] == [0, 0, 0]
    assert producer.client.read_answer(end, END[OLD], ended).error_code == 0
    assert producer.state()[0] == "CompleteCommit"
    for member in members:
        member.send_heartbeat()
    assert [member.read_heartbeat() for member in members] == [0, 0, 0], "nobody was expelled a moment later"
    wait_until(lambda: silent.group_state == "Empty", "the member that is silent has expired")
