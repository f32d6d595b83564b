"""What the verbs that are built with typer share: options, error lines and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from oncelog.broker.log.disk import StorageError
from oncelog.cli.output import print_json
from oncelog.client.addresses import parse_addresses
from oncelog.client.cluster import Cluster
from oncelog.client.errors import ClientError, UnknownTopic
from oncelog.client.security.file import read_security
from oncelog.protocol.errors import KafkaError, ProtocolError

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

# Typer carries its own copy of click since 0.2x and used the installed one before; both have this base.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class InputError(Exception):
    """What was given to read is wrong; one line for people."""


def _check_bootstrap(text: str) -> str:
    try:
        parse_addresses(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="ONCELOG_BOOTSTRAP",
        callback=_check_bootstrap,
        help="A broker of the cluster, or several with commas.",
    ),
]
BOOTSTRAP_DEFAULT = "localhost:9092"

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="A properties file as Kafka's tools take it; its security.*, ssl.* and sasl.* settings are used.",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def open_cluster(bootstrap: str, command_config: Path | None) -> Cluster:
    try:
        return Cluster(bootstrap, security=read_security(command_config))
    except ValueError as error:
        raise InputError(str(error)) from None


def new_app(help: str) -> typer.Typer:
    return typer.Typer(
        help=help,
        add_completion=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run_app(app: typer.Typer, verb: str, argv: list[str]) -> int:
    """Runs a verb; every failure that is not our bug becomes one line on stderr and an exit code."""
    command = typer.main.get_command(app)
    try:
        # Not `command.main`, which ends the process by itself when stdout is closed.
        with command.make_context(f"oncelog {verb}", list(argv)) as context:
            result = command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as ended:
        return ended.exit_code
    except _UsageError as error:
        complain(_usage_line(error, verb), verb)
        return EXIT_USAGE
    except InputError as error:
        complain(str(error), verb)
        return EXIT_USAGE
    except (ClientError, KafkaError, ProtocolError, StorageError) as error:
        complain(str(error), verb)
        return EXIT_FAILURE
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_OK
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), verb)
        return EXIT_FAILURE
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else EXIT_OK


def complain(message: str, verb: str) -> None:
    line = " ".join(message.split())
    print(f"oncelog {verb}: {line}", file=sys.stderr)


def delete_each(names: Sequence[str], delete: Callable[[str], None], *, kind: str, json: bool) -> None:
    """Deletes what can be deleted, and says of the rest why not."""
    deleted = []
    for name in names:
        try:
            delete(name)
        except (KafkaError, UnknownTopic) as error:
            complain(str(error), f"{kind}s")
        else:
            deleted.append(name)
            if not json:
                print(f"{kind.capitalize()} {name} deleted.")
    if json:
        print_json({"deleted": deleted})
    if len(deleted) < len(names):
        raise typer.Exit(EXIT_FAILURE)


def _usage_line(error: Exception, verb: str) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else f"oncelog {verb}"
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    return f"{message}; see {path} --help"


def _forget_stdout() -> None:
    """The reader went away, as `head` does; the interpreter must not complain when it flushes at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
