"""DeleteShareGroupOffsets (key 92, version 0): forget a share group's offsets in topics (KIP-932).

There are no share groups; UNSUPPORTED_VERSION is what Kafka answers with `share.version` 0.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.unserved import no_share_groups
from oncelog.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)


def handle(_: DeleteShareGroupOffsetsRequest, __: RequestContext) -> DeleteShareGroupOffsetsResponse:
    raise no_share_groups()
