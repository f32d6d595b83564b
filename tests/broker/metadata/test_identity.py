"""A data directory is of one node and one cluster; a broker that is another does not start on it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncelog.broker.admin.topics import create_topics
from oncelog.broker.app import BrokerApp
from oncelog.broker.config.load import load_config
from oncelog.broker.log.checkpoints import CLEAN_SHUTDOWN, META_PROPERTIES
from oncelog.broker.log.disk import StorageError
from oncelog.broker.metadata.plans.topics import NewTopic


@asynccontextmanager
async def running(directory: Path, *options: str) -> AsyncIterator[BrokerApp]:
    app = BrokerApp(load_config(options=[f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0", *options]))
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def refusal(directory: Path, *options: str) -> str:
    """Why the broker does not start. It leaves everything as it was."""
    before = snapshot(directory)
    with pytest.raises(StorageError) as raised:
        async with running(directory, *options):
            pass
    assert snapshot(directory) == before
    return str(raised.value)


def snapshot(directory: Path) -> dict[str, bytes]:
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths if path.name != ".lock"}


async def used_directory(directory: Path, *options: str) -> Path:
    async with running(directory, *options) as app:
        await create_topics(app.services, [NewTopic("t", 1)])
    return directory


async def test_another_node_id(tmp_path: Path) -> None:
    await used_directory(tmp_path, "node.id=3")
    for setting in ("node.id=4", "broker.id=4"):
        reason = await refusal(tmp_path, setting)
        assert "Stored node id 3 doesn't match node.id 4" in reason
        assert str(tmp_path / META_PROPERTIES) in reason
        assert "set node.id=3" in reason
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    async with running(tmp_path, "broker.id=3") as app:
        assert app.services.partitions.leader("t", 0).log.end_offset == 0
        assert list(app.services.metadata.image.brokers) == [3]


async def test_another_node_id_before_anything_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("version=1\nnode.id=2\ncluster.id=c\n")
    assert "set node.id=2" in await refusal(tmp_path)
    assert not (tmp_path / "metadata.sqlite").exists()


async def test_the_id_that_brokers_had_before_kraft(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("version=0\nbroker.id=2\ncluster.id=my\\=cluster\n")
    assert "set node.id=2" in await refusal(tmp_path)
    for _ in range(2):
        async with running(tmp_path, "node.id=2") as app:
            assert app.services.metadata.image.cluster_id == "my=cluster"


async def test_the_oldest_brokers_wrote_no_cluster_id(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("version=0\nbroker.id=1\n")
    async with running(tmp_path) as app:
        cluster_id = app.services.metadata.image.cluster_id
    assert f"cluster.id={cluster_id}" in (tmp_path / META_PROPERTIES).read_text()
    async with running(tmp_path):
        pass


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version=2\nnode.id=1\ncluster.id=c\n", "has version '2'; this version of Oncelog knows 0 and 1"),
        ("version=x\nnode.id=1\ncluster.id=c\n", "has version 'x'"),
        ("version=1\ncluster.id=c\n", "it has no valid node.id"),
        ("version=1\nnode.id=one\ncluster.id=c\n", "it has no valid node.id"),
        ("version=1\nnode.id=-1\ncluster.id=c\n", "it has no valid node.id"),
        ("version=1\nnode.id=1\n", "it has no cluster.id"),
        ("", "it has no valid broker.id"),
        ("\0\xff\xfe", "it has no valid broker.id"),
    ],
)
async def test_a_file_that_is_not_valid(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / META_PROPERTIES).write_text(text, encoding="latin-1")
    reason = await refusal(tmp_path)
    assert reason.startswith(str(tmp_path / META_PROPERTIES))
    assert words in reason


async def test_metadata_of_another_cluster(tmp_path: Path) -> None:
    mine, other = await used_directory(tmp_path / "mine"), await used_directory(tmp_path / "other")
    shutil.copy(other / "metadata.sqlite", mine / "metadata.sqlite")
    reason = await refusal(mine)
    assert reason.startswith(f"{mine / 'metadata.sqlite'} is of cluster")
    assert "put back the file that belongs to the directory" in reason


async def test_metadata_of_another_node(tmp_path: Path) -> None:
    await used_directory(tmp_path, "node.id=3")
    (tmp_path / META_PROPERTIES).unlink()
    reason = await refusal(tmp_path, "node.id=4")
    assert f"Stored node id 3 doesn't match node.id 4 in {tmp_path / 'metadata.sqlite'}" in reason


async def test_a_lost_file_is_written_again(tmp_path: Path) -> None:
    """A crash of the first start may come before it."""
    await used_directory(tmp_path)
    before = (tmp_path / META_PROPERTIES).read_text().splitlines()
    (tmp_path / META_PROPERTIES).unlink()
    async with running(tmp_path) as app:
        assert list(app.services.metadata.image.topics) == ["t"]
    after = (tmp_path / META_PROPERTIES).read_text().splitlines()
    assert {line for line in after if "directory.id" not in line} <= set(before)
