"""The first start on a data directory that another broker wrote, killed or stopped."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncelog.broker.admin.topics import create_topics
from oncelog.broker.app import BrokerApp
from oncelog.broker.config.load import load_config
from oncelog.broker.log import checkpoints
from oncelog.broker.log.file_names import LOG, offset_file_name
from oncelog.broker.metadata.plans.topics import NewTopic
from oncelog.protocol.records.batch import build_batch, iter_headers, patch_offset_and_epoch
from oncelog.protocol.records.record import Record

TOPIC_ID = bytes([7] * 16)
OLD_MS = 1_000_000_000_000
"""Long before any retention."""


@asynccontextmanager
async def running(directory: Path, *options: str) -> AsyncIterator[BrokerApp]:
    app = BrokerApp(load_config(options=[f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0", *options]))
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


def batch_at(offset: int, epoch: int = 0) -> bytes:
    batch = build_batch([Record(0, OLD_MS, b"key-%d" % offset, b"value")])
    patch_offset_and_epoch(batch, 0, offset, epoch)
    return bytes(batch)


def write_partition(
    root: Path,
    name: str,
    segments: dict[int, Iterable[int]],
    *,
    epochs: Iterable[tuple[int, int]] = ((0, 0),),
    topic_id: bytes = TOPIC_ID,
) -> None:
    """A partition as a killed Kafka leaves it: per segment the offsets of its records; indexes are rebuilt."""
    directory = root / name
    directory.mkdir(parents=True)
    (root / checkpoints.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=the-former-cluster\n")
    for base, offsets in segments.items():
        (directory / offset_file_name(base, LOG)).write_bytes(b"".join(map(batch_at, offsets)))
    lines = [f"{epoch} {start}" for epoch, start in epochs]
    (directory / "leader-epoch-checkpoint").write_bytes(checkpoints.encode_lines(lines))
    (directory / checkpoints.PARTITION_METADATA).write_bytes(checkpoints.encode_partition_metadata(topic_id))


def offsets_in(app: BrokerApp, topic: str, index: int) -> list[int]:
    log = app.services.partitions.leader(topic, index).log
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        result = log.read(offset, size_bytes_max=1 << 20, end_offset=log.end_offset)
        found += [header.base_offset for _, header in iter_headers(result.records)]
        offset = result.next_offset
    return found


async def test_gaps_that_compaction_left_are_not_taken_for_damage(tmp_path: Path) -> None:
    write_partition(tmp_path, "table-0", {0: [1, 5], 10: [], 20: [22, 29], 30: [30, 34]})
    for _ in range(2):
        async with running(tmp_path) as app:
            assert offsets_in(app, "table", 0) == [1, 5, 22, 29, 30, 34]
            assert app.services.partitions.leader("table", 0).log.end_offset == 35


async def test_gaps_are_kept_if_the_broker_dies_after_the_takeover(tmp_path: Path) -> None:
    write_partition(tmp_path, "table-0", {0: [1, 5], 20: [22, 29]})
    async with running(tmp_path):
        recovery_points = (tmp_path / checkpoints.RECOVERY_POINTS).read_text()
    assert "table 0 30" in recovery_points
    (tmp_path / checkpoints.CLEAN_SHUTDOWN).unlink()
    async with running(tmp_path) as app:
        assert offsets_in(app, "table", 0) == [1, 5, 22, 29]


async def test_a_torn_end_goes(tmp_path: Path) -> None:
    write_partition(tmp_path, "t-0", {0: [0, 1, 2]})
    path = tmp_path / "t-0" / offset_file_name(0, LOG)
    path.write_bytes(path.read_bytes()[:-1])
    async with running(tmp_path) as app:
        assert offsets_in(app, "t", 0) == [0, 1]


async def test_a_partition_that_cannot_be_opened_still_counts(tmp_path: Path) -> None:
    """Its files stay where they are, for a person to look at, and keys still go where they went."""
    write_partition(tmp_path, "t-0", {0: [0]})
    write_partition(tmp_path, "t-1", {0: [0]})
    (tmp_path / checkpoints.RECOVERY_POINTS).write_bytes(checkpoints.encode_lines(["t 0 1", "t 1 5"]))
    async with running(tmp_path) as app:
        topic = app.services.metadata.image.topics["t"]
        assert (topic.id, len(topic.partitions)) == (TOPIC_ID, 2)
        assert ("t", 1) in app.services.logs.failures
        assert (tmp_path / "t-1").is_dir()


async def test_internal_topics_are_compacted_from_the_first_start_on(tmp_path: Path) -> None:
    write_partition(tmp_path, "__consumer_offsets-0", {0: [0]})
    async with running(tmp_path) as app:
        config = app.services.logs.logs["__consumer_offsets", 0].config
        assert (config.cleanup_compact, config.cleanup_delete) == (True, False)
        assert not config.gaps_anywhere


async def test_the_leader_epoch_is_above_one_in_which_nothing_was_written(tmp_path: Path) -> None:
    """Clients that saw epoch 9 believe nobody who announces an older one."""
    write_partition(tmp_path, "t-0", {0: [0, 1]}, epochs=[(3, 0), (9, 2)])
    write_partition(tmp_path, "t-1", {0: []}, epochs=[(4, 0)])
    async with running(tmp_path) as app:
        partitions = app.services.metadata.image.topics["t"].partitions
        assert [state.leader_epoch for state in partitions] == [10, 5]


async def test_an_internal_topic_with_missing_directories_has_as_many_partitions_as_it_is_to_have(
    tmp_path: Path,
) -> None:
    """They are made when they are first written to, and every group is looked for by the number of all."""
    for index in (17, 31):
        write_partition(tmp_path, f"__consumer_offsets-{index}", {0: [0]})
    for index in (0, 1):
        write_partition(tmp_path, f"__transaction_state-{index}", {0: []}, topic_id=bytes([8] * 16))
    async with running(tmp_path, "offsets.topic.num.partitions=40") as app:
        topics = app.services.metadata.image.topics
        assert len(topics["__consumer_offsets"].partitions) == 40
        assert len(topics["__transaction_state"].partitions) == 2


def other_things(root: Path) -> dict[str, str | None]:
    """Names that a partition could have, with the text of those that are files."""
    (root / "t-0").write_text("a file")
    (root / "backup-20240131").mkdir()
    (root / "photos-7").mkdir()
    (root / "photos-7" / "IMG_1.jpg").write_text("a picture")
    (root / "photos-delete").mkdir()
    (root / "photos-delete" / "IMG_2.jpg").write_text("another picture")
    return contents(root, "t-0", "backup-20240131", "photos-7", "photos-delete")


def contents(root: Path, *names: str) -> dict[str, str | None]:
    paths = [path for name in names for path in ((root / name), *(root / name).rglob("*"))]
    return {str(path): path.read_text() if path.is_file() else None for path in paths}


@pytest.mark.parametrize("formatted", [True, False])
async def test_what_no_broker_wrote_is_left_alone(
    tmp_path: Path, formatted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if formatted:
        write_partition(tmp_path, "kept-0", {0: [0, 1]})
    things = other_things(tmp_path)
    for _ in range(2):
        caplog.clear()
        async with running(tmp_path) as app:
            assert set(app.services.metadata.image.topics) == ({"kept"} if formatted else set())
            if formatted:
                assert offsets_in(app, "kept", 0) == [0, 1]
            app.services.logs.maybe_remove_files(app.services.clock.wall_ms())
        assert contents(tmp_path, "t-0", "backup-20240131", "photos-7", "photos-delete") == things
        (line,) = [line for line in caplog.messages if "ignored" in line]
        assert line.endswith("backup-20240131, photos-7, t-0")


async def test_partitions_outside_a_data_directory_are_not_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_partition(tmp_path, "t-0", {0: [0, 1]})
    (tmp_path / checkpoints.META_PROPERTIES).unlink()
    before = (tmp_path / "t-0" / offset_file_name(0, LOG)).read_bytes()
    async with running(tmp_path) as app:
        assert not app.services.metadata.image.topics
        assert app.services.logs.partitions() == []
    assert (tmp_path / "t-0" / offset_file_name(0, LOG)).read_bytes() == before
    (line,) = [line for line in caplog.messages if "not taken over" in line]
    assert "t-0" in line
    assert "meta.properties" in line


async def test_a_directory_s_name_cannot_ask_for_millions_of_partitions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_partition(tmp_path, "t-1", {0: [0]})
    names = ["t-20240131", "u-10000", "..-0"]
    for name in names:
        write_partition(tmp_path, name, {0: [0]})
    async with running(tmp_path) as app:
        assert {name: len(topic.partitions) for name, topic in app.services.metadata.image.topics.items()} == {"t": 2}
        assert all((tmp_path / name).is_dir() for name in names)
    (line,) = [line for line in caplog.messages if "not taken over" in line]
    assert all(name in line for name in names)


async def test_a_partition_without_its_id_is_known_by_its_segments(tmp_path: Path) -> None:
    """So Kafka before 2.8 left them."""
    write_partition(tmp_path, "t-0", {0: [0, 1]})
    (tmp_path / "t-0" / checkpoints.PARTITION_METADATA).unlink()
    async with running(tmp_path) as app:
        assert offsets_in(app, "t", 0) == [0, 1]


async def test_an_empty_directory_that_a_crash_left_is_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as app:
        await create_topics(app.services, [NewTopic("t", 2)])
    for path in (tmp_path / "t-1").iterdir():
        path.unlink()
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.CLEAN_SHUTDOWN):
        (tmp_path / name).unlink()
    async with running(tmp_path) as app:
        assert offsets_in(app, "t", 1) == []
    assert [entry for entry in caplog.records if entry.levelno >= logging.WARNING] == []
