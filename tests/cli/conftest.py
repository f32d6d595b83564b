"""Runs the command in this process, against one broker for all tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from oncelog.cli.main import main

_numbers = itertools.count()


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Run:
    """`run("topics", "list")`; bytes that are not UTF-8 come back as surrogates."""
    monkeypatch.setenv("ONCELOG_BOOTSTRAP", bootstrap_servers)

    def run_main(*args: str, stdin: bytes = b"") -> Result:
        given = tmp_path / "stdin"
        given.write_bytes(stdin)
        with given.open() as file, monkeypatch.context() as patch:
            patch.setattr("sys.stdin", file)
            capfd.readouterr()
            code = main(list(args))
            out, err = capfd.readouterr()
        return Result(code, out, err)

    return run_main


@pytest.fixture
def topic(run: Run) -> str:
    """A topic of three partitions."""
    name = f"cli-{os.getpid()}-{next(_numbers)}"
    created = run("topics", "create", name, "--partitions", "3")
    assert created.code == 0, created
    return name
