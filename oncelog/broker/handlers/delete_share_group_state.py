"""DeleteShareGroupState (key 86, version 0): end the persistent state of share partitions (KIP-932).

Brokers send it to the coordinator of the state, which this broker is not of any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.unserved import not_share_coordinator, refused_partitions
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("topics.partitions", "results.partitions"),)


def handle(_: DeleteShareGroupStateRequest, __: RequestContext) -> DeleteShareGroupStateResponse:
    raise not_share_coordinator("delete share group state")


def error_reply(
    request: DeleteShareGroupStateRequest, error: KafkaError, _: RequestContext
) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(results=refused_partitions(request, error, DeleteStateResult, PartitionResult))
