"""The data directory that a broker makes for itself."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from oncelog.broker.app import BrokerApp
from oncelog.broker.config.load import load_config
from oncelog.broker.log.disk import Disk, StorageError


class WatchedDisk(Disk):
    """Remembers which directories were made and synced, in their order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        self.calls.append(("mkdir", path))
        super().mkdir(path, mode)

    def fsync_dir(self, path: str) -> None:
        self.calls.append(("sync", path))
        super().fsync_dir(path)


def app_on(path: Path, disk: Disk) -> BrokerApp:
    return BrokerApp(load_config(options=["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={path}"]), disk=disk)


async def test_the_names_of_a_new_directory_are_durable_before_it_is_used(tmp_path: Path) -> None:
    disk = WatchedDisk()
    app = app_on(tmp_path / "outer" / "data", disk)
    await app.start()
    await app.stop()
    outer, data = str(tmp_path / "outer"), str(tmp_path / "outer" / "data")
    assert disk.calls[:4] == [("mkdir", outer), ("sync", str(tmp_path)), ("mkdir", data), ("sync", outer)]
    assert stat.S_IMODE((tmp_path / "outer" / "data").stat().st_mode) == 0o700


async def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    app = app_on(tmp_path / "data", Disk())
    with pytest.raises(StorageError, match="is not a directory"):
        await app.start()
