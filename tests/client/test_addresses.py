from __future__ import annotations

import pytest

from oncelog.client.addresses import Address, parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:9093", "localhost", 9093),
        ("localhost", "localhost", 9092),
        ("[::1]:9093", "::1", 9093),
        ("[::1]", "::1", 9092),
        ("::1", "::1", 9092),
        ("fe80::1%eth0", "fe80::1%eth0", 9092),
        ("10.0.0.1:1", "10.0.0.1", 1),
        ("PLAINTEXT://localhost:9093", "localhost", 9093),
        ("plaintext://[::1]:9093", "::1", 9093),
        ("PLAINTEXT_HOST://broker", "broker", 9092),
        ("SASL_SSL://broker.example.com:9094", "broker.example.com", 9094),
    ],
)
def test_addresses_are_understood(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        ":9092",
        "host:",
        "host:0",
        "host:65536",
        "host:x",
        "[::1",
        "[::1]9092",
        "http://h:9092/",
        "a b:9092",
        "h/x:9092",
        "PLAINTEXT://",
        "u@h:9092",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    if text == "host:":
        assert parse_address(text) == ("host", 9092)
        return
    with pytest.raises(ValueError, match="address"):
        parse_addresses(text)


def test_a_list_of_addresses() -> None:
    assert parse_addresses("a:1, [::1]:2 ,c") == [("a", 1), ("::1", 2), ("c", 9092)]


def test_an_ipv6_address_is_shown_as_it_is_written() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("host", 9092)) == "host:9092"
