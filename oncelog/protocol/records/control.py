"""Control batches: the markers with which a transaction ends in a partition (KIP-98).

A marker is a batch of one record with the transactional and control bits, the producer's id and epoch, and no
sequence:

    key    version int16 (0) · type int16 (0 abort, 1 commit)
    value  version int16 (0) · coordinator_epoch int32

Later versions may only append fields, so a reader takes what it knows from the front.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import NO_LEADER_EPOCH, build_batch
from oncelog.protocol.records.record import Record

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """The types that belong to transactions; KRaft has others, which a partition of ours never holds."""

    ABORT = 0
    COMMIT = 1


class EndTxnMarker(NamedTuple):
    """How a transaction ended, and the coordinator's epoch by which an older coordinator is fenced."""

    type: ControlType
    coordinator_epoch: int


def build_marker_batch(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Build the batch that ends the producer's transaction in one partition."""
    key = _KEY.pack(_VERSION, marker.type)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def decode_control_key(key: bytes | None) -> int:
    """Give the type of a control record, which may be none of ControlType."""
    if key is None or len(key) < _KEY.size:
        raise ProtocolError("the key of a control record is too short")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(f"the key of a control record has version {version}")
    return int(control_type)


def decode_end_txn_marker(record: Record) -> EndTxnMarker:
    """Read the one record of a marker batch."""
    control_type = decode_control_key(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise ProtocolError(f"a control record of type {control_type} does not end a transaction")
    if record.value is None or len(record.value) < _VALUE.size:
        raise ProtocolError("the value of an end-of-transaction marker is too short")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise ProtocolError(f"an end-of-transaction marker has version {version}")
    return EndTxnMarker(ControlType(control_type), coordinator_epoch)
