"""StreamsGroupDescribe (key 89, version 0): state, topology, members and tasks of streams groups (KIP-1071).

There are no streams groups; UNSUPPORTED_VERSION is what Kafka answers with `streams.version` 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.unserved import no_streams_groups
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("group_ids", "groups"),)


def handle(_: StreamsGroupDescribeRequest, __: RequestContext) -> StreamsGroupDescribeResponse:
    raise no_streams_groups()


def error_reply(
    request: StreamsGroupDescribeRequest, error: KafkaError, _: RequestContext
) -> StreamsGroupDescribeResponse:
    refused = {"error_code": error.code, "error_message": error.message}
    return StreamsGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, **refused) for group_id in request.group_ids]
    )
