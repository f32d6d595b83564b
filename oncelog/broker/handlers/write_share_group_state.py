"""WriteShareGroupState (key 85, versions 0-1): change the persistent state of share partitions (KIP-932).

Brokers send it to the coordinator of the state, which this broker is not of any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.unserved import not_share_coordinator, refused_partitions
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("topics.partitions", "results.partitions"),)


def handle(_: WriteShareGroupStateRequest, __: RequestContext) -> WriteShareGroupStateResponse:
    raise not_share_coordinator("write share group state")


def error_reply(
    request: WriteShareGroupStateRequest, error: KafkaError, _: RequestContext
) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(results=refused_partitions(request, error, WriteStateResult, PartitionResult))
