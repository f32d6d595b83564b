"""AlterShareGroupOffsets (key 91, version 0): set the start offsets of an empty share group (KIP-932).

There are no share groups; UNSUPPORTED_VERSION is what Kafka answers with `share.version` 0.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.unserved import no_share_groups
from oncelog.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)


def handle(_: AlterShareGroupOffsetsRequest, __: RequestContext) -> AlterShareGroupOffsetsResponse:
    raise no_share_groups()
