"""What the verbs that are built with typer share: options, error lines and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from oncelog.broker.log.disk import StorageError
from oncelog.cli.output import print_json
from oncelog.cli.streams import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, complain
from oncelog.client.addresses import parse_addresses
from oncelog.client.cluster import Cluster
from oncelog.client.errors import ClientError, DamagedBatch, UnknownPartition, UnknownTopic
from oncelog.client.security.file import read_security
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError

_LISTED_BY = {ErrorCode.GROUP_ID_NOT_FOUND: "groups", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "txns"}

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


def run_app(app: typer.Typer, verb: str, argv: list[str]) -> int:
    """Runs a verb; every failure that is not our bug becomes one line on stderr and an exit code."""
    command = typer.main.get_command(app)
    try:
        # Not `command.main`, which ends the process by itself when stdout is closed.
        with command.make_context(f"oncelog {verb}", list(argv)) as context:
            result = command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except _UsageError as error:
        complain(_usage_line(error, verb), verb)
        return EXIT_USAGE
    except InputError as error:
        complain(str(error), verb)
        return EXIT_USAGE
    except UnicodeEncodeError as error:
        complain(f"{error.object!a} is not UTF-8; names in Kafka are", verb)
        return EXIT_USAGE
    except (ClientError, KafkaError, ProtocolError, StorageError) as error:
        complain(explain(error), verb)
        return EXIT_FAILURE
    except OSError as error:
        if not error.filename:
            raise
        complain(f"{error.filename}: {error.strerror}", verb)
        return EXIT_FAILURE
    except typer.Abort:
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else EXIT_OK


def explain(error: Exception) -> str:
    """The error with what to do about it, where the command line can help."""
    if isinstance(error, UnknownTopic) and not isinstance(error, UnknownPartition):
        return f"{error}; oncelog topics list shows those that exist"
    if isinstance(error, KafkaError) and error.code in _LISTED_BY:
        return f"{error}; oncelog {_LISTED_BY[error.code]} list shows those that exist"
    if isinstance(error, DamagedBatch):
        return f"{error}; to go on behind them: -p {error.partition} -o {error.last_offset + 1}"
    return str(error)


def delete_each(names: Sequence[str], delete: Callable[[str], None], *, kind: str, json: bool) -> None:
    """Deletes what can be deleted, and says of the rest why not."""
    deleted = []
    for name in names:
        try:
            delete(name)
        except (KafkaError, UnknownTopic) as error:
            complain(explain(error), f"{kind}s")
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
    message = message.removeprefix("Invalid value: ")
    return f"{message}; see {path} --help"
