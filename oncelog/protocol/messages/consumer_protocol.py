"""What consumers of classic groups tell each other inside JoinGroup's metadata and SyncGroup's assignment.

The broker passes these bytes on, and reads subscriptions to see which topics a group consumes (KIP-496). An
int16 with the version precedes either.
"""

from __future__ import annotations

from oncelog.protocol.primitives import Bytes, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class TopicPartition(Struct):
    topic: String
    partitions: list[Int32]


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[String]
    user_data: Bytes | None = field(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = field("1+")
    generation_id: Int32 = field("2+", default=-1)
    rack_id: String | None = field("3+", nullable="3+", default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = field(nullable="0+", default=None)
