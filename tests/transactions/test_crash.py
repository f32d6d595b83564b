"""The broker dies at every single call that changes its disk, from InitProducerId to the last COMPLETE.

Whatever was left, after the restart an acknowledged commit is all there, of everything else all or nothing is, no
aborted record is visible, nothing stays open past its timeout, and the files are in order. A kill leaves what was
written; a power cut, of which only `log.flush.on.ack` makes promises, leaves what was synced and some of the rest.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from direct_client import DirectProducer, committed_offset

from oncelog.broker.admin.topics import create_topics
from oncelog.broker.app import BrokerApp
from oncelog.broker.base.clock import Clock
from oncelog.broker.config.broker_config import Setting
from oncelog.broker.config.load import load_config
from oncelog.broker.coordinator.txn.state import PREPARED
from oncelog.broker.metadata.plans.topics import NewTopic
from oncelog.broker.replica.sync_latency import DiskPace
from oncelog.broker.requests.services import Services
from oncelog.inspect.directories import find_partitions
from oncelog.inspect.findings import Severity
from oncelog.inspect.verify import PartitionVerifier, Totals
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import iter_headers
from oncelog.protocol.records.record import iter_records
from tests.broker.log.simulated_disk import SimulatedCrash, SimulatedDisk

TOPIC, GROUP, ID = "t", "g", "x"
PARTITIONS = 2
TIMEOUT_MS = 60_000
PLAN = (("a", True), ("b", False), ("c", True))
"""Transactions, and whether they are to be committed."""
STRIDE = int(os.environ.get("ONCELOG_CRASH_STRIDE", "1"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Story:
    """What the client has asked for and what it was told."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.acknowledged: set[str] = set()
        self.producer: DirectProducer | None = None


def make_app(directory: Path, disk: SimulatedDisk, clock: Clock, flush_on_ack: bool) -> BrokerApp:
    settings = {
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.flush.on.ack": str(flush_on_ack).lower(),
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "log.initial.task.delay.ms": "3600000",
    }
    config = load_config(flags=[Setting(name, value, "the test") for name, value in settings.items()])
    return BrokerApp(config, disk=disk, clock=clock)


async def prepare(services: Services) -> None:
    await create_topics(services, [NewTopic(TOPIC, partition_count=PARTITIONS)])
    await services.groups.leader_of(GROUP)
    await services.transactions.leader_of(ID)


async def work(services: Services, version: int, disk: SimulatedDisk, story: Story) -> None:
    story.producer = producer = DirectProducer(services, ID, version, TIMEOUT_MS)
    await producer.init()
    for number, (name, commit) in enumerate(PLAN):
        for partition in range(PARTITIONS):
            await producer.send(TOPIC, partition, f"{name}{partition}")
        await producer.send_offset(TOPIC, 0, number + 1, GROUP)
        story.asked.add(name)
        await producer.end(commit)
        if disk.crashed:
            return
        story.acknowledged.add(name)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not come true")


def visible(services: Services, partition: int) -> list[str]:
    """What read_committed sees."""
    log = services.partitions.leader(TOPIC, partition).log
    end = log.last_stable_offset
    aborted = log.aborted_transactions(0, end)
    found = log.read(0, size_bytes_max=1 << 20, end_offset=end)
    values = []
    data = memoryview(found.records)
    for position, header in iter_headers(data):
        hidden = any(
            txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
            for txn in aborted
        )
        if not header.is_control and not hidden:
            batch = data[position : position + header.size_bytes]
            values += [(record.value or b"").decode() for record in iter_records(batch)]
    return values


async def crash_at(
    call: int, directory: Path, disk: SimulatedDisk, clock: Clock, version: int, flush_on_ack: bool
) -> Story | None:
    """The story up to the crash; None if the work is done with fewer calls."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    app = make_app(directory, disk, clock, flush_on_ack)
    await app.start()
    story = Story()
    disk.calls.clear()
    disk.crash_at = call
    working = asyncio.ensure_future(work(app.services, version, disk, story))
    while not working.done() and not disk.crashed:
        await asyncio.sleep(0)
    if not disk.crashed:
        working.result()
        # The record of the last COMPLETE may be synced behind the answer.
        with suppress(SimulatedCrash):
            await app._flusher.drain()
    await abandon(app, working)
    return story if disk.crashed else None


async def abandon(app: BrokerApp, working: asyncio.Future[None]) -> None:
    """What the end of a process does, without a word to the disk."""
    working.cancel()
    with suppress(asyncio.CancelledError, SimulatedCrash, KafkaError):
        await working
    for listener in app._listeners:
        await listener.stop()
    assert app._housekeeping is not None
    with suppress(SimulatedCrash):
        await app._housekeeping.stop()
    await app._stop_coordinators()
    app._flusher.close()
    assert app._store is not None
    await app.services.producer_ids.close()
    await app.services.metadata.close()
    await app._store.close()
    app.loop_watch.stop()


async def look(
    directory: Path, disk: SimulatedDisk, clock: Clock, story: Story, version: int, flush_on_ack: bool, *, retry: bool
) -> None:
    app = make_app(directory, disk, clock, flush_on_ack)
    await app.start()
    services = app.services
    for host in (services.groups, services.transactions):
        for shard in host.shards:
            await shard.loading()
    in_doubt = story.asked - story.acknowledged
    done = set(story.acknowledged)
    if retry and in_doubt:
        done |= await ask_again(services, story)
    clock.advance(TIMEOUT_MS)
    await until(
        lambda: all(
            transaction.state not in PREPARED and not transaction.partitions
            for shard in services.transactions.shards
            for transaction in shard.coordinator.transactions()
        )
    )
    views = [visible(services, partition) for partition in range(PARTITIONS)]
    names = [[value[0] for value in view] for view in views]
    assert names[0] == names[1], f"a part of a transaction is visible: {views}"
    wanted = {name for name, commit in PLAN if commit}
    assert set(names[0]) <= wanted & story.asked, f"visible without a commit: {views}"
    assert set(names[0]) >= wanted & done, f"an acknowledged commit is lost: {views}"
    assert names[0] == sorted(set(names[0])), f"out of order or twice: {views}"
    for partition in range(PARTITIONS):
        log = services.partitions.leader(TOPIC, partition).log
        assert log.last_stable_offset == log.high_watermark == log.end_offset
    offset = await committed_offset(services, GROUP, TOPIC, 0)
    assert offset == max((1 + "abc".index(name) for name in names[0]), default=-1)
    successor = DirectProducer(services, ID, version, TIMEOUT_MS)
    await successor.init()
    await successor.send(TOPIC, 0, "z")
    await successor.end(True)
    assert visible(services, 0)[-1] == "z"
    await app.stop()


async def ask_again(services: Services, story: Story) -> set[str]:
    """The client sends its EndTxn once more, to the broker that came back."""
    assert story.producer is not None
    story.producer.services = services
    (name,) = story.asked - story.acknowledged
    try:
        await story.producer.end(dict(PLAN)[name])
    except KafkaError as error:
        # What was begun without having been synced is gone after a power cut, and the state is that of before.
        if error.code not in (ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED):
            raise
        return set()
    return {name}


def check_files(disk: SimulatedDisk, root: Path, target: Path) -> None:
    """Verify what the broker has left, in files that a tool can read."""
    target.mkdir()
    for path, file in disk.names.items():
        place = target / Path(path).relative_to("/")
        if file is None:
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.data)
    found = [
        finding
        for partition in find_partitions(target / root.relative_to("/"))
        for finding in PartitionVerifier(partition, Totals(), lambda _: None).findings()
        if finding.severity == Severity.ERROR
    ]
    assert found == []
    shutil.rmtree(target)


def run(work: Awaitable[object]) -> object:
    async def main() -> object:
        return await work

    return asyncio.run(main())


@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("flush_on_ack", "power_cut", "at_once"),
    [(False, False, False), (True, False, False), (True, True, False), (True, True, True)],
    ids=["page-cache", "flush", "power", "power-at-once"],
)
def test_a_crash_at_every_call_to_the_disk(
    tmp_path: Path,
    version: int,
    flush_on_ack: bool,
    power_cut: bool,
    at_once: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if at_once:
        # As on a disk that is known to be fast, and with requests that come alone.
        monkeypatch.setattr(DiskPace, "is_fast", True)
        monkeypatch.setattr(DiskPace, "allows_loop", lambda _: True)
        monkeypatch.setattr("oncelog.broker.replica.flusher.SLEPT_SECONDS", -1e9)
    clock = Clock()
    root = tmp_path / "data"
    first = SimulatedDisk()
    for parent in reversed(root.parents):
        first.names[str(parent)] = first.durable_names[str(parent)] = None

    async def lay_the_ground() -> None:
        app = make_app(root, first, clock, flush_on_ack)
        await app.start()
        await prepare(app.services)
        await app.stop()

    # The metadata is in a file of the real file system, beside what the simulated disk has.
    root.mkdir()
    run(lay_the_ground())
    shutil.copytree(root, tmp_path / "metadata")
    call, story = 0, None
    while True:
        call += STRIDE
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "metadata", root)
        disk = first.after_kill()
        story = run(crash_at(call, root, disk, clock, version, flush_on_ack))
        if story is None:
            break
        assert isinstance(story, Story)
        left = disk.after_power_cut(random.Random(call)) if power_cut else disk.after_kill()
        run(look(root, left, clock, story, version, flush_on_ack, retry=bool(call % 2)))
        check_files(left, root, tmp_path / "files")
    assert call > 40
