"""ShareGroupDescribe (key 77, version 1): state, members and assignments of share groups (KIP-932).

There are no share groups; UNSUPPORTED_VERSION is what Kafka answers with `share.version` 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.unserved import no_share_groups
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("group_ids", "groups"),)


def handle(_: ShareGroupDescribeRequest, __: RequestContext) -> ShareGroupDescribeResponse:
    raise no_share_groups()


def error_reply(request: ShareGroupDescribeRequest, error: KafkaError, _: RequestContext) -> ShareGroupDescribeResponse:
    refused = {"error_code": error.code, "error_message": error.message}
    return ShareGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, **refused) for group_id in request.group_ids]
    )
