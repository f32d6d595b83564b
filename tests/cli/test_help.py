"""Help shows what the declarations say: no markup, no names of Python types."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
import typer

from oncelog.cli.main import main

VERBS_BY_TYPER = ("topics", "groups", "txns", "produce", "consume", "dump-log", "verify-log")


def commands() -> list[tuple[str, ...]]:
    """Every command and subcommand: ("produce",), ("topics",), ("topics", "create"), …"""
    found: list[tuple[str, ...]] = []
    for verb in VERBS_BY_TYPER:
        app = import_module(f"oncelog.cli.{verb.replace('-', '_')}").app
        command = typer.main.get_command(app)
        found.append((verb,))
        found += [(verb, name) for name in getattr(command, "commands", {})]
    return found


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("ONCELOG_BOOTSTRAP", raising=False)


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main([*args, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_help_is_plain_text(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, *command)
    assert text.startswith(f"Usage: oncelog {' '.join(command)} ")
    assert not re.search(r"<\w+|`|\[\[|None|\bbool\b", text)
    assert "\x1b" not in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_arguments_are_shown_as_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    for command, usage in {
        "produce": "TOPIC [FILE...] [OPTIONS]",
        "topics describe": "[NAME] [OPTIONS]",
        "topics delete": "NAME... [OPTIONS]",
        "dump-log": "FILE|DIR... [OPTIONS]",
        "groups": "COMMAND [OPTIONS]",
    }.items():
        assert shown(capsys, *command.split()).splitlines()[0] == f"Usage: oncelog {command} {usage}"


def test_options_are_shown_with_value_default_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "consume")
    assert re.search(r"^  -e, --exit  +Stop at the end", text, re.MULTILINE)
    assert re.search(r"^  -o, --offset START  +beginning", text, re.MULTILINE)
    assert "(default: read_committed)" in text
    assert "security.*, ssl.* and sasl.* settings" in " ".join(text.split())
    assert "(default: localhost:9092, environment: ONCELOG_BOOTSTRAP)" in " ".join(text.split())


def test_examples_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\n  oncelog consume orders -o -10 -f '%p/%o %k=%v\\n'\n" in shown(capsys, "consume")
    assert "\n  oncelog consume old --json -e | oncelog produce new --json\n" in shown(capsys, "produce")


def test_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = shown(capsys, "topics", "create")
    assert "--replication-factor N" in text
    assert max(map(len, text.splitlines())) < 60
