"""How many records a consumer has still to get, which is not how many offsets lie before it.

Markers of transactions and aborted records take offsets but are never delivered. A group that has read everything
of a transactional topic therefore seems to lag for ever, if offsets are subtracted. A short distance is counted for
real; a long one is taken for what the offsets say, since counting it would mean reading it.
"""

from __future__ import annotations

from oncelog.client.cluster import Cluster, TopicPartition
from oncelog.client.consumer import Consumer, Start
from oncelog.client.offsets import Isolation

COUNTED_OFFSETS_MAX = 1000


def count_records(cluster: Cluster, partition: TopicPartition, offset: int, end_offset: int) -> int:
    distance = max(0, end_offset - offset)
    if not 0 < distance <= COUNTED_OFFSETS_MAX:
        return distance
    topic, index = partition
    consumer = Consumer(
        cluster, topic, partitions=[index], start=Start.offset(offset), isolation=Isolation.READ_COMMITTED
    )
    return sum(1 for consumed in consumer.records(follow=False) if offset <= consumed.record.offset < end_offset)
