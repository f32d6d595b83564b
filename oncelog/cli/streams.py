"""Standard streams that are closed, full, or read by nobody any more; and error lines."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def complain(message: str, verb: str) -> None:
    line = " ".join(message.split())
    print(f"oncelog {verb}: {line}", file=sys.stderr)


def guard(verb: str, action: Callable[[], int], *, needs_stdout: bool) -> int:
    """Runs a verb. An interrupt or a failed write to stdout becomes an exit code, not a traceback.

    An OSError without a file name that reaches this is one of stdout; verbs report all others themselves.
    """
    _prepare_streams()
    if sys.stdout is None and needs_stdout:
        complain("stdout is closed; to discard the output, redirect it to /dev/null", verb)
        return EXIT_FAILURE
    try:
        code = _until_exit(action)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has what it wants, as `head` does.
        forget_stdout()
        return EXIT_OK
    except OSError as error:
        forget_stdout()
        complain(f"cannot write to stdout: {error.strerror or error}", verb)
        return EXIT_FAILURE


def _until_exit(action: Callable[[], int]) -> int:
    """argparse ends the program by itself once it has printed its help."""
    try:
        return action()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else EXIT_OK


def forget_stdout() -> None:
    """What is still buffered goes nowhere; the interpreter would complain when it flushes at the end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _prepare_streams() -> None:
    if None in (sys.stdin, sys.stdout, sys.stderr):
        # Nothing that is opened later may get the number of a closed standard stream.
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal's encoding does not have is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
