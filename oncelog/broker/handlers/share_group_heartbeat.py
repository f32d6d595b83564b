"""ShareGroupHeartbeat (key 76, version 1): join, stay in, and leave a share group (KIP-932).

There are no share groups; UNSUPPORTED_VERSION is what Kafka answers with `share.version` 0.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.unserved import no_share_groups
from oncelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def handle(_: ShareGroupHeartbeatRequest, __: RequestContext) -> ShareGroupHeartbeatResponse:
    raise no_share_groups()
