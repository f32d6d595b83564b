"""Where a transaction keeps the batch's marker: beside the offsets that it commits to the sink's group.

A broker forgets a group's offsets of a topic that is deleted. So the marker is kept at every partition of the Kafka
sources that this cluster has, and also at one partition of each topic that the query has written to: as long as one of
these topics is there, a repeated batch is recognized. If none is left, there is nothing that could be duplicated.

The offset at an output partition is its end after this transaction, so that tools show no lag there.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.client.cluster import TopicPartition
from oncelog.spark.marker import decode_marker
from oncelog.spark.transaction import CommittedOffset

TOPICS_MAX = 64
"""A query may name a topic in each row; the marker is kept at so many of them."""


def output_places(
    committed: Mapping[TopicPartition, CommittedOffset], sources: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The output partitions that have had a marker before, with their committed offsets."""
    return {
        where: each.offset
        for where, each in committed.items()
        if where not in sources and decode_marker(each.metadata) is not None
    }


def output_offsets(
    ends: Mapping[TopicPartition, int], places: Mapping[TopicPartition, int], *, adopts: bool = False
) -> dict[TopicPartition, int]:
    """What to commit at the outputs: `ends` are those of the written partitions, `places` are of earlier batches.

    A place that was written to moves to its new end, and each topic has at least one place. A query that adopts the id
    of another leaves no marker of that one: its checkpoint could come back, and would be taken for the newest.
    """
    found: dict[TopicPartition, int] = {}
    topics = dict.fromkeys(topic for topic, _ in (*sorted(places), *sorted(ends)))
    for topic in list(topics)[:TOPICS_MAX]:
        held = {where: offset for where, offset in places.items() if where[0] == topic}
        written = {where: end for where, end in ends.items() if where[0] == topic}
        moved = held.keys() & written.keys()
        if moved:
            found |= {where: written[where] for where in moved}
        else:
            first = min(written or held)
            found[first] = (written or held)[first]
    return {**places, **found} if adopts else found
