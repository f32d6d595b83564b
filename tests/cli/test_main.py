from __future__ import annotations

import subprocess
import sys

import pytest

from oncelog import __version__
from oncelog.cli.main import VERBS, main


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command_and_shows_examples(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {verb} " in out for verb in VERBS)
    assert "Examples:" in out


@pytest.mark.parametrize("argv", [["version"], ["--version"], ["-V"]])
def test_version(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert capsys.readouterr().out == f"oncelog {__version__}\n"


def test_a_command_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["produec"]) == 2
    assert capsys.readouterr().err == "oncelog: there is no command 'produec'; did you mean 'produce'?\n"
    assert main(["xyzzy"]) == 2
    assert capsys.readouterr().err == "oncelog: there is no command 'xyzzy'; see oncelog --help\n"


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"version", "serve"}))
def test_every_command_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"oncelog {verb}" in shown
    assert main(["help", verb]) == 0
    assert capsys.readouterr().out == shown


def test_help_of_a_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "topics", "create"]) == 0
    assert capsys.readouterr().out.startswith("Usage: oncelog topics create NAME [OPTIONS]\n")
    assert main(["help", "version"]) == 0
    assert capsys.readouterr().out == "Print the version.\n"


def test_help_of_what_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "topcis"]) == 2
    assert capsys.readouterr().err == "oncelog: there is no command 'topcis'; did you mean 'topics'?\n"
    assert main(["help", "topics", "frobnicate"]) == 2
    assert capsys.readouterr().err.startswith("oncelog topics: No such command 'frobnicate'")


def test_commands_that_must_start_fast_do_not_load_typer_or_rich() -> None:
    code = """
import sys
from oncelog.cli.main import main
main(["version"]), main(["help"]), main(["ping", "-b", "127.0.0.1:1"])
import oncelog.cli.serve
heavy = {"typer", "rich", "click", "asyncio", "oncelog.pipeline", "pyspark"} & sys.modules.keys()
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
