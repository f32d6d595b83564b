"""The options of `oncelog serve`.

argparse takes as long to load as twenty modules of the broker. So an ordinary command line is read without it, and
what is not ordinary goes to argparse: --help, `--data=DIR`, an abbreviation, a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.named_tuple import NamedTuple

DESCRIPTION = "Serve Kafka clients. Without options: 127.0.0.1:9092, data in ./data."
EPILOG = """settings: Kafka's own names, by --config FILE, then KAFKA_* and ONCELOG_* variables, then -o key=value.
  oncelog serve --data /var/lib/oncelog --listen 0.0.0.0:9092 --advertise kafka.example.com:9092
  oncelog serve -o num.partitions=4 -o log.flush.on.ack=false
  ONCELOG_LOG_RETENTION_HOURS=1 oncelog serve"""

_LEVELS = ("debug", "info", "warning", "error")
_FIELDS = {f"--{name.replace('_', '-')}": name for name in ("data", "listen", "advertise", "config", "log_level")}


class ServeOptions(NamedTuple):
    data: str | None = None
    listen: str | None = None
    advertise: str | None = None
    config: str | None = None
    options: Sequence[str] = ()
    log_level: str = "info"


def parse(argv: Sequence[str]) -> ServeOptions:
    """Ends the program where it is asked for help, and after a mistake."""
    return read_ordinary(argv) or read_any(argv)


def read_ordinary(argv: Sequence[str]) -> ServeOptions | None:
    """None unless the arguments are pairs of an option and its value."""
    fields: dict[str, str] = {}
    settings: list[str] = []
    # The last one may lack its value, and gets one that is none.
    for option, value in zip(argv[::2], (*argv[1::2], "-"), strict=False):
        if value.startswith("-"):
            return None
        if option == "-o":
            settings.append(value)
        elif option in _FIELDS:
            fields[_FIELDS[option]] = value
        else:
            return None
    found = ServeOptions(**fields, options=settings)
    return found if found.log_level in _LEVELS else None


def read_any(argv: Sequence[str]) -> ServeOptions:
    import argparse

    parser = argparse.ArgumentParser(
        prog="oncelog serve",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", metavar="DIR", help="where the data is kept (default ./data)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to listen (default 127.0.0.1:9092)")
    parser.add_argument("--advertise", metavar="HOST:PORT", help="what clients are told to connect to")
    parser.add_argument("--config", metavar="FILE", help="a server.properties file")
    parser.add_argument(
        "-o", dest="options", metavar="KEY=VALUE", action="append", default=[], help="one setting; repeatable"
    )
    parser.add_argument(
        "--log-level",
        default="info",
        choices=_LEVELS,
        help="what to log (default info); debug has a line for each request, connection and change of state",
    )
    return ServeOptions(**vars(parser.parse_args(argv)))
