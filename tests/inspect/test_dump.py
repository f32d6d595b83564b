from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog.inspect.dump import UnknownFile, dump_file, is_known
from tests.inspect.partition_builder import START_MS, build_partition


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_partition(tmp_path_factory.mktemp("built") / "data")


def rows(path: Path, *, records: bool = False) -> list[dict[str, Any]]:
    return list(dump_file(path, records=records))


def test_batches_and_markers(directory: Path) -> None:
    found = rows(directory / f"{0:020d}.log")
    batches = [row for row in found if row["type"] == "batch"]
    assert [row["compression"] for row in batches[:5]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert (batches[5]["producer_id"], batches[6]["base_sequence"], batches[6]["last_sequence"]) == (10, 3, 4)
    assert all(row["crc_ok"] for row in batches)
    (marker,) = [row for row in found if row["type"] == "marker"]
    assert (marker["marker"], marker["coordinator_epoch"]) == ("abort", 0)


def test_records(directory: Path) -> None:
    found = [row for row in rows(directory / f"{0:020d}.log", records=True) if row["type"] == "record"]
    assert [row["offset"] for row in found[:7]] == list(range(7))
    assert found[0] == {
        "type": "record",
        "offset": 0,
        "timestamp": START_MS + 1,
        "key": b"key",
        "value": b"value" * 20,
        "headers": [("h", b"x")],
    }


def test_every_kind_of_file_is_understood(directory: Path) -> None:
    kinds = {}
    for path in (*directory.iterdir(), *directory.parent.iterdir()):
        if is_known(path):
            found = rows(path)
            assert "damage" not in {row["type"] for row in found}
            kinds[path.suffix or path.name] = {row["type"] for row in found}
    assert kinds == {
        ".log": {"batch", "marker"},
        ".index": {"offset_index"},
        ".timeindex": {"time_index"},
        ".txnindex": {"aborted_txn"},
        ".snapshot": {"producer"},
        "leader-epoch-checkpoint": {"leader_epoch"},
        ".metadata": {"text"},
        "recovery-point-offset-checkpoint": {"checkpoint"},
        "replication-offset-checkpoint": {"checkpoint"},
    }


@pytest.mark.parametrize("suffix", [".index", ".log"])
def test_zeros_behind_the_end_are_left_out(directory: Path, tmp_path: Path, suffix: str) -> None:
    source = directory / f"{0:020d}{suffix}"
    copy = tmp_path / source.name
    copy.write_bytes(source.read_bytes() + bytes(800))
    assert rows(copy) == rows(source)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (f"{0:020d}.log", b"x" * 100),
        (f"{0:020d}.index", b"x"),
        (f"{0:020d}.timeindex", b"x"),
        ("short.index", bytes(8)),
        (f"{0:020d}.txnindex", b"x"),
        (f"{0:020d}.snapshot", b"x"),
        ("leader-epoch-checkpoint", b"x"),
        ("leader-epoch-checkpoint", b"0\n1\nx\n"),
        ("recovery-point-offset-checkpoint", b"0\n7\n"),
    ],
)
def test_a_damaged_file_ends_with_the_reason(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    last = rows(path)[-1]
    assert last["type"] == "damage"
    assert last["reason"]


def test_a_wrong_checksum_is_shown_and_the_rest_is_read(directory: Path, tmp_path: Path) -> None:
    source = directory / f"{0:020d}.log"
    data = bytearray(source.read_bytes())
    data[100] ^= 1
    copy = tmp_path / source.name
    copy.write_bytes(data)
    found = [row for row in rows(copy) if row["type"] == "batch"]
    assert [row["crc_ok"] for row in found] == [False, *[True] * (len(found) - 1)]


def test_an_unknown_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("x")
    with pytest.raises(UnknownFile, match="no file that can be dumped"):
        dump_file(path)
    assert not is_known(path)
