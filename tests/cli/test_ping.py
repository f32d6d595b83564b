from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_broker_that_answers(run: Run, bootstrap_servers: str) -> None:
    result = run("ping")
    assert result.code == 0
    assert result.out.startswith(f"{bootstrap_servers} answers in ")
    assert run("ping", "-q", "-b", bootstrap_servers) == (0, "", "")


def test_nobody_answers(run: Run) -> None:
    result = run("ping", "-b", "127.0.0.1:1")
    assert result == (
        1,
        "",
        "oncelog ping: no broker answers at 127.0.0.1:1; is it running? (oncelog serve)\n",
    )


def test_the_next_address_is_tried(run: Run, bootstrap_servers: str) -> None:
    result = run("ping", "-b", f"127.0.0.1:1,{bootstrap_servers}")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{bootstrap_servers} answers in ")


def test_nobody_answers_at_any_address(run: Run) -> None:
    result = run("ping", "-b", "127.0.0.1:1,127.0.0.1:2")
    assert (result.code, result.out) == (1, "")
    first, second = result.err.splitlines()
    assert first.startswith("oncelog ping: no broker answers at 127.0.0.1:1;")
    assert second.startswith("oncelog ping: no broker answers at 127.0.0.1:2;")


def test_security_settings_are_read_from_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\nretries=3\n")
    assert run("ping", "-q", "--command-config", str(file)) == (0, "", "")
    file.write_text("security.protocol=SASL_PLAINTEXT\n")
    result = run("ping", "--command-config", str(file))
    assert result.code == 2
    assert result.err.startswith(f"oncelog ping: {file}: sasl.mechanism is not set")


@pytest.mark.parametrize(
    "args",
    [
        ["-b", "host:x"],
        ["--nonsense"],
        ["--timeout", "soon"],
        ["--timeout", "nan"],
        ["--timeout", "inf"],
        ["--timeout", "-1"],
        ["--command-config", "/no/such/file"],
    ],
)
def test_wrong_usage_is_one_line(run: Run, args: list[str]) -> None:
    result = run("ping", *args)
    assert result.code == 2
    assert result.err.startswith("oncelog ping: ")
    assert result.err.count("\n") == 1
