"""The peers by name, and a pool that starts each on first use and lets one of them run at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from bench.peers.apache import Apache, ApacheFlush
from bench.peers.base import Peer
from bench.peers.floor import Floor, FloorFsync
from bench.peers.kfake import Kfake
from bench.peers.oncelog import Oncelog, OncelogControl, OncelogFsync

_ALL = (Apache, ApacheFlush, Oncelog, OncelogFsync, OncelogControl, Kfake, Floor, FloorFsync)
PEERS = {peer.name: peer for peer in _ALL}
DESCRIPTIONS = {
    "kafka": "Apache Kafka 4.3, 1 GB heap, its defaults: an ack means the page cache",
    "kafka-fsync": "Apache Kafka 4.3 with flush.messages=1: every append is fsynced before its ack",
    "oncelog": "Oncelog with log.flush.on.ack=false: an ack means the page cache, as with Kafka's defaults",
    "oncelog-fsync": "Oncelog with its defaults: every ack is fsynced",
    "oncelog-control": "where something grows, another Oncelog in which it does not",
    "kfake": "franz-go's kfake, in Go, keeps everything in memory and nothing on disk",
    "floor": "the least uvloop program that receives the same bytes, checks CRC32C and writes them",
    "floor-fsync": "the same, and syncs each batch before its ack",
}
# For every peer that has the settings: what is deleted is to be gone before the next turn, a new group waits for no
# more members, as it does at the reference, and members of the new protocol learn of a rebalance within 200 ms.
_FOR_ALL = {
    "log.segment.delete.delay.ms": "0",
    "log.initial.task.delay.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}
# For what a broker that was paused wanted to do meanwhile.
_SETTLE_SECONDS = 0.2


class Pool:
    """Peers that live as long as the pool; one that cannot start is not tried again."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        warm_up: Callable[[Peer], None] = lambda _: None,
        *,
        pauses: bool = True,
    ) -> None:
        """Without pauses, all its peers run all the time."""
        self._settings = {**_FOR_ALL, **(settings or {})}
        self._warm_up = warm_up
        self._pauses = pauses
        self._peers: dict[str, Peer] = {}
        self._failures: dict[str, str] = {}
        self._paused: set[str] = set()

    def get(self, name: str, *, started: bool = True) -> Peer:
        if name in self._failures:
            raise RuntimeError(self._failures[name])
        try:
            peer = self._peers.get(name) or self._peers.setdefault(name, PEERS[name](self._settings))
            if started and not peer.is_running:
                peer.start()
                self._warm_up(peer)
        except Exception as error:
            self._failures[name] = f"{name} did not start: {error}"
            raise
        return peer

    def leave_alone(self, name: str) -> None:
        """Only this peer runs from now on: idle, a warm Kafka takes a tenth of a core from whoever is measured."""
        for other in self._peers:
            if other != name:
                self._pause(other)
        if name in self._paused:
            self._paused.remove(name)
            self._peers[name].resume()
            time.sleep(_SETTLE_SECONDS)

    def pause_all(self) -> None:
        for name in self._peers:
            self._pause(name)

    def _pause(self, name: str) -> None:
        if self._pauses and name not in self._paused:
            self._paused.add(name)
            self._peers[name].pause()

    def close(self, names: Sequence[str] | None = None) -> None:
        """Of all its peers, or of these; a closed one would start anew, without data."""
        for name in list(self._peers) if names is None else names:
            peer = self._peers.pop(name, None)
            self._paused.discard(name)
            if peer is not None:
                peer.close()
