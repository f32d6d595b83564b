"""AddRaftVoter (key 80, versions 0-1): add a voter to the metadata quorum (KIP-853).

The metadata is in one store, not in a quorum; UNSUPPORTED_VERSION is what Kafka answers with `kraft.version` 0.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.unserved import voters_are_fixed
from oncelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    raise voters_are_fixed("add", request, context.services.metadata.image.cluster_id)
