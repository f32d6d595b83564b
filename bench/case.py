"""What a kind of work is: cases in an order, each measured for its peers in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from bench.meter import Sample
from bench.peers.base import Peer

BROKERS = ("kafka", "oncelog", "oncelog-fsync")
# A sample writes no more than this, though its time is not over; see `machine.have_memory_at_hand`.
WRITTEN_BYTES_MAX = 400_000_000


class Case(ABC):
    """One line of the results: `measure` is called in turn for every peer, round after round."""

    # The name of the metric that this case is about, the first of its table.
    headline: str
    rounds: int | None = None
    warmups = 1
    # Whether the peer runs already when it is measured; otherwise the case starts it.
    starts_peers = False
    # How long one peer needs beside the seconds of its samples, for the budget.
    extra_seconds = 1.0
    # How much longer than others a sample should be where the budget decides: tails need many events.
    seconds_factor = 1.0

    def __init__(self, name: str, peers: Sequence[str], **params: Any) -> None:
        self.name = name
        self.peers = tuple(peers)
        self.params = params

    def prepare(self, peer: Peer, seconds: float) -> None:  # noqa: B027
        """Once for every peer, before its first round; not measured."""

    @abstractmethod
    def measure(self, peer: Peer, turn: int, seconds: float) -> Sample:
        """One sample, for about that many seconds."""

    def finish(self, peer: Peer) -> None:  # noqa: B027
        """Once for every peer that was prepared, also after a failure."""


class Work(ABC):
    """One kind of work, by the name that the command line and the results have for it."""

    name: str
    title: str
    # With peers of its own, which end with the work: for what leaves a peer changed.
    own_peers = False
    peer_settings: Mapping[str, str] = {}
    # Whether those of its own peers rest whose turn it is not.
    pauses_peers = True
    # What a quick run changes in the options; None leaves the work out.
    quick: Mapping[str, Any] | None = None

    def add_options(self, parser: ArgumentParser) -> None:  # noqa: B027
        """Options beside the common ones, each with the default of a full run."""

    @abstractmethod
    def cases(self, options: Namespace) -> Sequence[Case]: ...


def numbers(text: str) -> list[int]:
    """A list with commas, for argparse."""
    return [int(part) for part in text.split(",")]
