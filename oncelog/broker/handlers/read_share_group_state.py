"""ReadShareGroupState (key 84, version 0): the persistent state of share partitions (KIP-932).

Brokers send it to the coordinator of the state, which this broker is not of any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.unserved import not_share_coordinator, refused_partitions
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("topics.partitions", "results.partitions"),)


def handle(_: ReadShareGroupStateRequest, __: RequestContext) -> ReadShareGroupStateResponse:
    raise not_share_coordinator("read share group state")


def error_reply(
    request: ReadShareGroupStateRequest, error: KafkaError, _: RequestContext
) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(results=refused_partitions(request, error, ReadStateResult, PartitionResult))
