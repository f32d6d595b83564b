"""AddRaftVoter (key 80): add a voter to the metadata quorum (KIP-853)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int16, Int32, String, UInt16, Uuid
from oncelog.protocol.schema import Message, Struct, field


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class AddRaftVoterRequest(Message, api_key=80, versions="0-1", flexible="0+"):
    cluster_id: String | None = field(nullable="0+")
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    ack_when_committed: Bool = field("1+", default=True)


class AddRaftVoterResponse(Message, api_key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")
