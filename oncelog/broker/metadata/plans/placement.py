"""Chooses the brokers of new partitions.

Brokers form a ring that alternates between racks. Each partition starts one place further, so leaders
spread evenly; after each round the followers shift by one more place, so that the partitions of a broker
that dies do not all have the same second replica. A replica goes to a rack that has none of the partition,
while there is one.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from oncelog.broker.metadata.image import BrokerImage


def place_replicas(
    brokers: Collection[BrokerImage], partition_count: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """`start` is any number; a different one for each topic spreads topics of one partition."""
    if not 1 <= replication_factor <= len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of"
            f" {replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    ring = _ring(brokers)
    # The pattern repeats after as many rounds as there are shifts, so it is computed once.
    period = len(ring) * max(1, len(ring) - 1)
    pattern = [
        _replicas(ring, start + index, index // len(ring), replication_factor)
        for index in range(min(partition_count, period))
    ]
    return [pattern[index % period] for index in range(partition_count)]


def _ring(brokers: Collection[BrokerImage]) -> list[BrokerImage]:
    racks: defaultdict[str, list[BrokerImage]] = defaultdict(list)
    for broker in sorted(brokers):
        racks[broker.rack or ""].append(broker)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def _replicas(ring: Sequence[BrokerImage], first: int, shift: int, count: int) -> tuple[int, ...]:
    size = len(ring)
    leader = ring[first % size]
    others = [ring[(first + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
    chosen, racks = [leader], {leader.rack}
    for broker in others:
        if len(chosen) < count and broker.rack not in racks:
            chosen.append(broker)
            racks.add(broker.rack)
    chosen += [broker for broker in others if broker not in chosen][: count - len(chosen)]
    return tuple(broker.id for broker in chosen)
