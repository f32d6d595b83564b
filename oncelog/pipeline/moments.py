"""When to kill a job, and whether the kill meets an open transaction.

The driver is paused (SIGSTOP) while the broker is asked, and killed, or goes on, only after something was killed. Only
the driver begins and ends transactions, so what the broker answered is still true at the kill.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from oncelog.client.cluster import Cluster
from oncelog.client.errors import ClientError
from oncelog.client.transactions import TransactionAdmin
from oncelog.pipeline.evidence import wait_for_growth, wait_for_open_transaction
from oncelog.protocol.errors import KafkaError

MOMENT_SECONDS_MAX = 3.0
"""A kill comes at a random moment after the output has grown, so that it meets all phases of a batch."""
WRITING_SECONDS_MAX = 60.0
ASK_TIMEOUT_MS = 5_000
ONGOING = "Ongoing"


class Moment(Protocol):
    @property
    def is_aimed(self) -> bool:
        """Whether a kill that would meet no open transaction waits for the next moment."""

    def wait(self, over: Callable[[], bool]) -> None:
        """Returns when the moment has come, or when it is over."""

    def open_transaction(self) -> str | None:
        """What a kill meets now, in a few words; None for nothing. The driver is paused."""


class RandomMoment(NamedTuple):
    bootstrap: str
    transactional_id: str
    chooser: random.Random
    seconds_max: float = MOMENT_SECONDS_MAX
    is_aimed: bool = False

    def wait(self, over: Callable[[], bool]) -> None:
        time.sleep(self.chooser.uniform(0, self.seconds_max))

    def open_transaction(self) -> str | None:
        return describe_open(self.bootstrap, self.transactional_id)


class WhileWriting(NamedTuple):
    """When records of an unfinished batch are in the topic: the kill leaves a batch that nobody may ever see."""

    bootstrap: str
    transactional_id: str
    topic: str
    is_aimed: bool = True

    def wait(self, over: Callable[[], bool]) -> None:
        _wait(wait_for_open_transaction, self.bootstrap, self.topic, over)

    def open_transaction(self) -> str | None:
        return describe_open(self.bootstrap, self.transactional_id)


class WhileGrowing(NamedTuple):
    """The same for a sink without transactions, which then writes the batch twice."""

    bootstrap: str
    topic: str
    is_aimed: bool = False

    def wait(self, over: Callable[[], bool]) -> None:
        _wait(wait_for_growth, self.bootstrap, self.topic, over)

    def open_transaction(self) -> str | None:
        return None


def _wait(
    look: Callable[[str, str, float, Callable[[], bool]], bool], bootstrap: str, topic: str, over: Callable[[], bool]
) -> None:
    try:
        look(bootstrap, topic, WRITING_SECONDS_MAX, over)
    except (ClientError, KafkaError):
        # A broker that does not answer is about as good a moment.
        return


def describe_open(bootstrap: str, transactional_id: str) -> str | None:
    """The transaction that is open, as its coordinator describes it; None for none, and if nobody answers."""
    try:
        with Cluster(bootstrap, timeout_ms=ASK_TIMEOUT_MS) as cluster:
            found = TransactionAdmin(cluster).describe(transactional_id)
    except (ClientError, KafkaError):
        return None
    if found.state != ONGOING:
        return None
    return f"producer {found.producer_id}, epoch {found.epoch}, {len(found.partitions)} partitions"
