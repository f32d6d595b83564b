"""StreamsGroupHeartbeat (key 88, version 0): join, stay in, and leave a streams group (KIP-1071).

There are no streams groups; UNSUPPORTED_VERSION is what Kafka answers with `streams.version` 0.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.unserved import no_streams_groups
from oncelog.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


def handle(_: StreamsGroupHeartbeatRequest, __: RequestContext) -> StreamsGroupHeartbeatResponse:
    raise no_streams_groups()
