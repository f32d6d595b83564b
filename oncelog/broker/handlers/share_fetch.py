"""ShareFetch (key 78, versions 1-2): acquire records for a share group (KIP-932, KIP-1206).

There are no share groups; UNSUPPORTED_VERSION is what Kafka answers with `share.version` 0.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.unserved import no_share_groups
from oncelog.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse


def handle(_: ShareFetchRequest, __: RequestContext) -> ShareFetchResponse:
    raise no_share_groups()
