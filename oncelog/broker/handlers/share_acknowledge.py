"""ShareAcknowledge (key 79, versions 1-2): accept, release, reject or renew acquired records (KIP-932, KIP-1222).

There are no share groups; UNSUPPORTED_VERSION is what Kafka answers with `share.version` 0.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.unserved import no_share_groups
from oncelog.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse


def handle(_: ShareAcknowledgeRequest, __: RequestContext) -> ShareAcknowledgeResponse:
    raise no_share_groups()
