"""`oncelog ping`: does a broker answer? For people and for health checks, so it loads no more than it needs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from oncelog.client.addresses import parse_addresses
from oncelog.client.connection import Connection
from oncelog.client.errors import ClientError
from oncelog.client.security.file import read_security
from oncelog.protocol.errors import KafkaError

TIMEOUT_S = 5.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {self.prog} --help")


def run(argv: list[str]) -> int:
    parser = _Parser(
        prog="oncelog ping",
        description="Ask a broker for its API versions: exit code 0 if it answers, 1 if not.",
    )
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("ONCELOG_BOOTSTRAP") or "localhost:9092",
        help="the broker (default: ONCELOG_BOOTSTRAP or localhost:9092)",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        type=Path,
        help="a properties file as Kafka's tools take it; its security.*, ssl.* and sasl.* settings are used",
    )
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=TIMEOUT_S, help=f"default: {TIMEOUT_S:g}")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing when the broker answers")
    try:
        options = parser.parse_args(argv)
        address = parse_addresses(options.bootstrap)[0]
        security = read_security(options.command_config)
    except ValueError as error:
        print(f"oncelog ping: {error}", file=sys.stderr)
        return 2
    except SystemExit:
        return 0
    started = time.monotonic()
    try:
        with Connection(address, timeout_ms=max(1, int(options.timeout * 1000)), security=security) as connection:
            took_ms = (time.monotonic() - started) * 1000
            if not options.quiet:
                print(f"{address} answers in {took_ms:.1f} ms and has {len(connection.versions)} APIs")
            return 0
    except (ClientError, KafkaError) as error:
        print(f"oncelog ping: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
