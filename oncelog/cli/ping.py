"""`oncelog ping`: does a broker answer? For people and for health checks, so it loads no more than it needs."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import NoReturn

from oncelog.cli.streams import EXIT_FAILURE, EXIT_OK, EXIT_USAGE, complain
from oncelog.client.addresses import parse_addresses
from oncelog.client.connection import Connection
from oncelog.client.errors import ClientError
from oncelog.client.security.file import read_security
from oncelog.protocol.errors import KafkaError

TIMEOUT_S = "5"
TIMEOUT_S_MAX = 86_400


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {self.prog} --help")


def run(argv: list[str]) -> int:
    try:
        options = _parser().parse_args(argv)
        addresses = parse_addresses(options.bootstrap)
        security = read_security(options.command_config)
    except ValueError as error:
        complain(str(error), "ping")
        return EXIT_USAGE
    except SystemExit:
        return EXIT_OK
    failures = []
    for address in addresses:
        started = time.monotonic()
        try:
            with Connection(address, timeout_ms=options.timeout, security=security) as connection:
                took_ms = (time.monotonic() - started) * 1000
                if not options.quiet:
                    print(f"{address} answers in {took_ms:.1f} ms and has {len(connection.versions)} APIs")
                return EXIT_OK
        except (ClientError, KafkaError) as error:
            failures.append(str(error))
    for failure in failures:
        complain(failure, "ping")
    return EXIT_FAILURE


def _parser() -> _Parser:
    parser = _Parser(
        prog="oncelog ping",
        description="Ask a broker for its API versions: exit code 0 if it answers, 1 if not.",
    )
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("ONCELOG_BOOTSTRAP") or "localhost:9092",
        help="the broker, or several with commas, of which one has to answer "
        "(default: ONCELOG_BOOTSTRAP or localhost:9092)",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        type=Path,
        help="a properties file as Kafka's tools take it; its security.*, ssl.* and sasl.* settings are used",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_timeout_ms,
        default=_timeout_ms(TIMEOUT_S),
        help=f"for each address (default: {TIMEOUT_S})",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing when the broker answers")
    return parser


def _timeout_ms(text: str) -> int:
    seconds = float(text)
    if not 0 < seconds <= TIMEOUT_S_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 0 to {TIMEOUT_S_MAX}")
    return max(1, int(seconds * 1000))
