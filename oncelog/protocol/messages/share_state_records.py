"""Records of `__share_group_state`, the state of share partitions (KIP-932), framed as in `group_records`."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, Int64, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class ShareSnapshotKey(Message, api_key=0, versions="0"):
    group_id: String
    topic_id: Uuid
    partition: Int32


class StateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ShareSnapshotValue(Message, api_key=0, versions="0", flexible="0+"):
    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[StateBatch]


class ShareUpdateKey(Message, api_key=1, versions="0"):
    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareUpdateValue(Message, api_key=1, versions="0", flexible="0+"):
    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    state_batches: list[StateBatch]
