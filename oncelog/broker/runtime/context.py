"""What a handler is told about a request besides its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from oncelog.broker.runtime.services import Services


class Peer(Protocol):
    """The connection that a request came on, as far as a handler may see it."""

    @property
    def listener_name(self) -> str: ...

    @property
    def peer_host(self) -> str: ...

    @property
    def peer_address(self) -> str:
        """Host and port."""

    @property
    def connection_number(self) -> int:
        """Grows with every connection: of two, the one with the larger number is the newer."""


class _NoReply:
    def __repr__(self) -> str:
        return "NO_REPLY"


NO_REPLY: Final[Any] = _NoReply()
"""Returned by a handler whose client expects no answer (Produce with acks=0)."""


class RequestContext:
    __slots__ = ("client_id", "exclusive", "peer", "services", "throttle_time_ms", "version")

    def __init__(self, services: Services, version: int, client_id: str | None, peer: Peer) -> None:
        self.services = services
        self.version = version
        self.client_id = client_id
        self.peer = peer
        self.exclusive = False
        """Set by a handler whose connection must not start the next request before this one is answered."""
        self.throttle_time_ms = 0
        """Set by a handler that answers with a throttle time: the connection is muted for that long."""
