"""ListPartitionReassignments (key 46, version 0): the moves of replicas under way (KIP-455).

A single node has nowhere to move a replica to, so there are none.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

CHUNKS = (along("topics.partition_indexes", "topics.partitions"),)


def handle(_: ListPartitionReassignmentsRequest, __: RequestContext) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)
