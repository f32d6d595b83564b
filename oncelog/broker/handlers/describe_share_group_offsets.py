"""DescribeShareGroupOffsets (key 90, versions 0-1): start offsets and lags of share groups (KIP-932, KIP-1226).

There are no share groups; UNSUPPORTED_VERSION is what Kafka answers with `share.version` 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.unserved import no_share_groups
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("groups"),)


def handle(_: DescribeShareGroupOffsetsRequest, __: RequestContext) -> DescribeShareGroupOffsetsResponse:
    raise no_share_groups()


def error_reply(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError, _: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, error_code=error.code, error_message=error.message
            )
            for group in request.groups
        ]
    )
