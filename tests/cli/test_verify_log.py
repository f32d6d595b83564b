from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog.cli.main import main
from tests.inspect.partition_builder import build_partition


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return build_partition(tmp_path / "data")


def test_a_clean_directory(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-log", str(directory.parent)]) == 0
    *notes, summary = capsys.readouterr().out.splitlines()
    assert len(notes) == 1
    assert notes[0].endswith("note: the transaction of producer 30 is open [open-transaction]")
    assert summary.startswith("1 partition, 2 segments, 18 batches, ")
    assert summary.endswith(": no errors, 1 note")
    assert main(["verify-log", str(directory.parent), "--no-notes"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_errors_are_a_line_each_and_exit_code_1(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert main(["verify-log", str(directory)]) == 1
    out = capsys.readouterr().out
    assert f"{path}:0 offset 0: error: the checksum of a batch of " in out
    assert ": 1 error" in out.splitlines()[-1]


def test_json(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-log", "--json", str(directory.parent)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert report["findings"][0] == {
        "severity": "note",
        "kind": "open-transaction",
        "path": str(directory),
        "position": None,
        "offset": 50,
        "message": "the transaction of producer 30 is open",
    }


def test_wrong_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, reason in ((tmp_path / "missing", "does not exist"), (tmp_path, "is neither a partition nor a data")):
        assert main(["verify-log", str(path)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"oncelog verify-log: {path} {reason}")
        assert err.count("\n") == 1
