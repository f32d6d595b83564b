"""ReadShareGroupStateSummary (key 87, versions 0-1): the start of the state of share partitions (KIP-932).

Brokers send it to the coordinator of the state, which this broker is not of any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.unserved import not_share_coordinator, refused_partitions
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("topics.partitions", "results.partitions"),)


def handle(_: ReadShareGroupStateSummaryRequest, __: RequestContext) -> ReadShareGroupStateSummaryResponse:
    raise not_share_coordinator("read share group state summary")


def error_reply(
    request: ReadShareGroupStateSummaryRequest, error: KafkaError, _: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=refused_partitions(request, error, ReadStateSummaryResult, PartitionResult)
    )
