"""InitializeShareGroupState (key 83, version 0): begin the persistent state of share partitions (KIP-932).

Brokers send it to the coordinator of the state, which this broker is not of any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.unserved import not_share_coordinator, refused_partitions
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("topics.partitions", "results.partitions"),)


def handle(_: InitializeShareGroupStateRequest, __: RequestContext) -> InitializeShareGroupStateResponse:
    raise not_share_coordinator("initialize share group state")


def error_reply(
    request: InitializeShareGroupStateRequest, error: KafkaError, _: RequestContext
) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(
        results=refused_partitions(request, error, InitializeStateResult, PartitionResult)
    )
