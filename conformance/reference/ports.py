"""Free TCP ports for servers that cannot be asked to listen on port 0."""

from __future__ import annotations

import random
import socket


def free_ports(count: int) -> list[int]:
    """Distinct ports that nobody listens on now.

    They lie below the range from which Linux picks the local port of an outgoing connection. Otherwise, while
    a broker is down, a client's retry could be given the broker's own port and even connect to itself.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(12_000, 32_000)
        if port not in found and _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
