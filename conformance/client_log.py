"""Where the logs of clients go: they meet errors on purpose, and the lines of the card would drown in theirs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from conformance.reference.jars import CACHE

if TYPE_CHECKING:
    from typing import TextIO

CLIENT_LOG = CACHE / "clients.log"


def open_client_log() -> TextIO:
    """For the errors of a process; it goes on behind what others wrote."""
    CACHE.mkdir(exist_ok=True)
    return CLIENT_LOG.open("a")


def begin_client_log() -> None:
    """A new file, to which clients of this process log as well."""
    CACHE.mkdir(exist_ok=True)
    CLIENT_LOG.write_text("")
    logging.basicConfig(
        filename=CLIENT_LOG, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
