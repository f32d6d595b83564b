"""`oncelog pipeline` without what it needs, and without a job to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.cli.main import main

JOB = ["--bootstrap", "h:1", "--from", "a", "--to", "b", "--transactional-id", "t", "--checkpoint", "c"]


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['numpy'] = None; from oncelog.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "pipeline", "etl", *JOB]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "etl: numpy is not installed: pip install 'oncelog[pipeline]'\n")


def test_a_wrong_flag_and_help_give_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "etl", "--nonsense"]) == 2
    assert "--nonsense" in capsys.readouterr().err
    assert main(["pipeline", "etl", "--help"]) == 0
    assert "oncelog pipeline etl" in capsys.readouterr().out


def test_the_program_for_spark_submit_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "program"]) == 0
    assert Path(capsys.readouterr().out.strip()).read_text().startswith('"""')
