"""Who kills a job neither waits for what has happened already, nor starts a job for ever that cannot run."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from oncelog.pipeline.chaos import RESTARTS_MAX, EtlProcess, kill_each, run_with_kills
from oncelog.testing import Broker

pytest.importorskip("yaml", reason="needs the extra `pipeline`")
pytest.importorskip("psutil", reason="needs the extra `pipeline`")

BROKER = Broker(subprocess=True)
"""Is not killed here, so it need not run."""


def at_once() -> None: ...


def test_a_job_that_always_fails_is_given_up(tmp_path: Path) -> None:
    etl = EtlProcess([], tmp_path / "log")
    with pytest.raises(RuntimeError, match=r"again and again(.|\n)*--bootstrap is missing"):
        run_with_kills(etl, BROKER, ["driver"], 1, lambda: 0, random.Random(1), print, at_once)
    assert etl.log().count("--bootstrap is missing") == RESTARTS_MAX + 1
    with pytest.raises(RuntimeError, match="again and again"):
        kill_each(etl, BROKER, ["driver"], lambda: 1, lambda: 0, random.Random(1), at_once)


def test_a_job_that_is_quick_is_killed_all_the_same(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    # Nobody writes its settings, so the job lives and does nothing.
    os.mkfifo(config)
    etl = EtlProcess(["--config", str(config)], tmp_path / "log")
    output = 0

    def feed() -> int:
        nonlocal output
        output += 1_000
        return 333

    etl.start()
    try:
        done = kill_each(etl, BROKER, ["driver", "driver"], feed, lambda: output, random.Random(1), at_once)
        assert [kill.what for kill in done] == ["driver", "driver"]
        assert etl.exit_code is None
    finally:
        etl.close()
