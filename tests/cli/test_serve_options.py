"""The options of `oncelog serve` mean the same with argparse and without it."""

from __future__ import annotations

import pytest

from oncelog.cli import serve_options
from oncelog.cli.serve_options import ServeOptions, read_any, read_ordinary


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--data d",
        "--data d --listen :9092 --advertise kafka:9092 --config file --log-level debug",
        "-o a=1 --data d -o b=2 --data e",
    ],
)
def test_an_ordinary_line_is_read_as_argparse_reads_it(line: str) -> None:
    found = read_ordinary(line.split())
    assert found is not None
    assert found._replace(options=list(found.options)) == read_any(line.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--data=d", ServeOptions(data="d", options=[])),
        ("--adv kafka:9092", ServeOptions(advertise="kafka:9092", options=[])),
        ("-oa=1 -o=b=2", ServeOptions(options=["a=1", "b=2"])),
    ],
)
def test_argparse_reads_the_others(line: str, expected: ServeOptions) -> None:
    assert read_ordinary(line.split()) is None
    assert serve_options.parse(line.split()) == expected


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("--data", "expected one argument"),
        ("--data --listen :1", "expected one argument"),
        ("-o a=1 d", "unrecognized arguments: d"),
        ("--nonsense 1", "unrecognized arguments: --nonsense"),
        ("--log-level loud", "invalid choice: 'loud'"),
    ],
)
def test_a_mistake_ends_with_code_2(line: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        serve_options.parse(line.split())
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        serve_options.parse(["--help"])
    assert not ended.value.code
    printed = capsys.readouterr().out
    for option in ("--data", "--listen", "--advertise", "--config", "--log-level", "-o KEY=VALUE"):
        assert option in printed
