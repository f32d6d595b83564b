"""RemoveRaftVoter (key 81, version 0): remove a voter from the metadata quorum (KIP-853).

The metadata is in one store, not in a quorum; UNSUPPORTED_VERSION is what Kafka answers with `kraft.version` 0.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.unserved import voters_are_fixed
from oncelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def handle(request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    raise voters_are_fixed("remove", request, context.services.metadata.image.cluster_id)
