"""Broker addresses as people write them: `host:port`, `host`, `[::1]:9092`, and lists with commas.

The name of a listener may stand before them, as in `PLAINTEXT://host:port`: Kafka's clients pass over it, too. What
is spoken at the address is decided by `security.protocol`.
"""

from __future__ import annotations

import re

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.addresses import host_and_port

PORT_DEFAULT = 9092

_LISTENER_NAME = re.compile(r"[\w.%-]*://")
_NOT_IN_HOST = re.compile(r"[\s/@]")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)


def parse_addresses(text: str) -> list[Address]:
    """Raises ValueError with one line that names the part that is wrong."""
    addresses = [parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("an address is HOST:PORT, and it is empty")
    return addresses


def parse_address(text: str) -> Address:
    return _parse_host_and_port(_LISTENER_NAME.sub("", text, count=1) if "://" in text else text)


def _parse_host_and_port(text: str) -> Address:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not an address: write [IPV6]:PORT")
        port = rest[1:]
    elif text.count(":") > 1:
        # More than one colon can only be a bare IPv6 address, which leaves no way to add a port.
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host:
        raise ValueError(f"{text!r} is not an address: the host is missing")
    if _NOT_IN_HOST.search(host):
        raise ValueError(f"{text!r} is not an address: write HOST:PORT")
    if not port:
        return Address(host, PORT_DEFAULT)
    if not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address: the port must be a number from 1 to 65535")
    return Address(host, int(port))
