from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog.cli.main import main
from tests.inspect.partition_builder import build_partition


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return build_partition(tmp_path / "data")


def test_a_data_directory_for_people(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", str(directory.parent), "--records"]) == 0
    lines = capsys.readouterr().out.splitlines()
    text = "\n".join(lines)
    assert str(directory / f"{0:020d}.log") in lines
    assert "  offset 25-27, at " in text
    assert "3 records, epoch 0, created 2023-11-14T22:13:20.028Z, producer 10/0, sequence 0-2, crc " in text
    assert '  | offset 0, 2023-11-14T22:13:20.001Z, key "key", value "valuevalue' in text
    assert ' headers h="x"' in text
    assert "abort marker, coordinator epoch 0" in text
    assert "producer 20 aborted offsets 30-35, stable up to 34" in text
    assert "transaction open since 50" in text
    assert "epoch 1 from offset 36" in text


def test_json_lines(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / f"{0:020d}.log"
    assert main(["dump-log", str(path), "--json", "-r"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["file"] for row in rows} == {str(path)}
    assert rows[0]["type"] == "batch"
    assert rows[1]["headers"] == [["h", "x"]]


def test_a_damaged_file_gives_exit_code_1(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-5])
    assert main(["dump-log", str(path)]) == 1
    assert "DAMAGED at " in capsys.readouterr().out.splitlines()[-1]
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data[:1000])
    assert main(["dump-log", str(path)]) == 1
    assert "IS WRONG" in capsys.readouterr().out


def test_wrong_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "notes.txt"):
        assert main(["dump-log", str(path)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"oncelog dump-log: {path} ")
        assert err.count("\n") == 1
