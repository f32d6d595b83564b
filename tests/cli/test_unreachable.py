"""Addresses where no broker answers: every verb says what is there, and what to do, in one line."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Run

VERBS = [
    ["ping"],
    ["topics", "list"],
    ["topics", "describe", "t"],
    ["topics", "create", "t"],
    ["topics", "create", "t", "--if-not-exists"],
    ["topics", "alter", "t", "-p", "3"],
    ["topics", "alter", "t", "-c", "retention.ms=1"],
    ["topics", "delete", "t"],
    ["produce", "t"],
    ["consume", "t"],
    ["groups", "list"],
    ["groups", "describe", "g"],
    ["groups", "reset", "g", "--to", "earliest"],
    ["groups", "delete", "g"],
    ["txns", "list"],
    ["txns", "describe", "id"],
    ["txns", "why-stuck", "t"],
    ["txns", "abort", "id"],
    ["txns", "abort", "t:0", "--start-offset", "0"],
]
TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x28"

each_verb = pytest.mark.parametrize("verb", VERBS, ids=" ".join)


@contextmanager
def port_that_answers(answer: bytes) -> Iterator[str]:
    """A port that reads a request, sends these bytes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def one_line(run: Run, verb: list[str], address: str) -> str:
    result = run(*verb, "-b", address, stdin=b"x\n")
    assert (result.code, result.out) == (1, "")
    assert result.err.count("\n") == 1
    return result.err.removeprefix(f"oncelog {verb[0]}: ")


@each_verb
def test_nothing_listens(run: Run, verb: list[str]) -> None:
    assert one_line(run, verb, "127.0.0.1:1") == ("no broker answers at 127.0.0.1:1; is it running? (oncelog serve)\n")


@each_verb
def test_a_host_that_does_not_exist(run: Run, verb: list[str]) -> None:
    line = one_line(run, verb, "nowhere.invalid:9092")
    assert line.startswith("nowhere.invalid cannot be resolved: ")
    assert line.endswith("; check the host name\n")


@each_verb
def test_a_port_with_tls(run: Run, verb: list[str]) -> None:
    with port_that_answers(TLS_ALERT) as address:
        assert one_line(run, verb, address) == (
            f"{address} speaks TLS; set security.protocol (on the command line in the file of --command-config) "
            "to SSL or SASL_SSL\n"
        )


@each_verb
def test_a_port_of_a_web_server(run: Run, verb: list[str]) -> None:
    with port_that_answers(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        assert one_line(run, verb, address) == f"{address} does not speak Kafka's protocol; check the port\n"


@each_verb
def test_an_address_that_is_none(run: Run, verb: list[str]) -> None:
    result = run(*verb, "-b", "host:port", stdin=b"x\n")
    assert (result.code, result.out) == (2, "")
    assert "'host:port' is not an address: the port must be a number" in result.err
    assert result.err.count("\n") == 1


def test_all_addresses_are_named(run: Run) -> None:
    line = one_line(run, ["topics", "list"], "127.0.0.1:1,127.0.0.1:2")
    assert "no broker answers at 127.0.0.1:1;" in line
    assert "no broker answers at 127.0.0.1:2;" in line


def test_a_listener_name_before_the_address(run: Run, bootstrap_servers: str) -> None:
    for verb in (["ping", "-q"], ["topics", "list", "--json"]):
        assert run(*verb, "-b", f"PLAINTEXT://{bootstrap_servers}").code == 0
