"""The entry point: finds the verb and hands the rest of the arguments to its module.

`serve`, `ping` and `version` start without typer and rich, which take longer to load than a broker to start.
"""

from __future__ import annotations

import sys
from importlib import import_module

from oncelog import __version__
from oncelog.cli.streams import EXIT_OK, EXIT_USAGE, guard

VERBS = {
    "serve": "Run the broker.",
    "topics": "Create, list, describe, alter and delete topics.",
    "produce": "Write lines, JSON objects or files to a topic.",
    "consume": "Print the records of a topic.",
    "groups": "List, describe, reset and delete consumer groups.",
    "txns": "List, describe and abort transactions; say which one holds readers up.",
    "pipeline": "Run Spark jobs from topic to topic, exactly once, and audit them.",
    "ping": "Ask whether a broker answers.",
    "dump-log": "Print what segment, index and checkpoint files hold.",
    "verify-log": "Check the files of a stopped broker, as fsck does.",
    "version": "Print the version.",
}

EXAMPLES = """\
  oncelog serve --data ./data
  oncelog topics create orders --partitions 3
  echo 'alice:hello' | oncelog produce orders -K :
  oncelog consume orders -e -f '%p/%o %k=%v\\n'
  oncelog topics describe orders
  oncelog verify-log ./data"""


HELP = ("help", "--help", "-h")


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code: 0 for success, 1 for a failure or a finding, 2 for wrong usage."""
    verb, *arguments = (sys.argv[1:] if argv is None else argv) or ["help"]
    if verb in HELP and arguments:
        # `oncelog help topics create` is `oncelog topics create --help`.
        verb, *arguments = [*arguments, "--help"]
    # A broker without a stdout serves all the same.
    return guard(verb, lambda: _run(verb, arguments), needs_stdout=verb != "serve")


def _run(verb: str, arguments: list[str]) -> int:
    if verb in HELP:
        print(help_text())
        return EXIT_OK
    if verb in ("version", "--version", "-V"):
        print(VERBS["version"] if "--help" in arguments else f"oncelog {__version__}")
        return EXIT_OK
    if verb not in VERBS:
        print(f"oncelog: there is no command {verb!r}{_suggestion(verb)}", file=sys.stderr)
        return EXIT_USAGE
    module = import_module(f"oncelog.cli.{verb.replace('-', '_')}")
    code: int = module.run(arguments)
    return code


def help_text() -> str:
    verbs = "\n".join(f"  {verb:<12}{summary}" for verb, summary in VERBS.items())
    return f"""\
Oncelog, a Kafka-compatible broker with exactly-once delivery.

Usage: oncelog COMMAND [OPTIONS]

Commands:
{verbs}

Examples:
{EXAMPLES}

Each command has its own --help. The broker is looked for at localhost:9092, at --bootstrap HOST:PORT,
or where ONCELOG_BOOTSTRAP says."""


def _suggestion(verb: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(verb, VERBS, n=1)
    return f"; did you mean {near[0]!r}?" if near else "; see oncelog --help"


if __name__ == "__main__":
    sys.exit(main())
