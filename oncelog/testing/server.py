"""`oncelog serve` with a socket, given by the number of its descriptor, through which a test controls it."""

from __future__ import annotations

import socket
import sys
from functools import partial

from oncelog.cli import serve
from oncelog.testing.controlled import ControlledApp


def main(argv: list[str]) -> int:
    control = socket.socket(fileno=int(argv[0]))
    return serve.run(argv[1:], partial(ControlledApp, control=control))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
