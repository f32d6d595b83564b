"""What a handler is told about a request besides its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from oncelog.broker.base import turns

if TYPE_CHECKING:
    from oncelog.broker.requests.services import Services
    from oncelog.broker.security.principals import Principal


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
    def principal(self) -> Principal:
        """Who has authenticated on it."""

    @property
    def connection_number(self) -> int:
        """Grows with every connection: of two, the one with the larger number is the newer."""

    def start_next(self, throttle_time_ms: int) -> None:
        """Go on with the next request, after that time, while the answer to one is still to come."""


class _NoReply:
    def __repr__(self) -> str:
        return "NO_REPLY"


NO_REPLY: Final[Any] = _NoReply()
"""Returned by a handler whose client expects no answer (Produce with acks=0)."""


class RequestContext:
    __slots__ = ("client_id", "is_large", "keeps_frame", "peer", "services", "throttle_time_ms", "version")

    def __init__(self, services: Services, version: int, client_id: str | None, peer: Peer) -> None:
        self.services = services
        self.version = version
        self.client_id = client_id
        self.peer = peer
        self.keeps_frame = False
        """Set by a handler that uses the request's records after it has first waited. Until `start_next`, or else until
        the answer, the connection receives nothing over them and starts no other request."""
        self.throttle_time_ms = 0
        """Set by a handler that answers with a throttle time: the connection is muted for that long."""
        self.is_large = False
        """Whether the response may be so large that it is encoded in a thread."""

    @property
    def principal(self) -> Principal:
        return self.peer.principal

    def start_next(self) -> None:
        """The frame is not needed any more, and the next request may overtake the rest of this one. That is not so for
        a request in chunks, of which others may follow."""
        if not self.is_large:
            self.keeps_frame = False
            throttle_time_ms, self.throttle_time_ms = self.throttle_time_ms, 0
            self.peer.start_next(throttle_time_ms)


class Pace(turns.Pace):
    """Of a handler with much to do. If it has to rest, its response is likely to be large, too."""

    __slots__ = ("_context",)

    def __init__(self, context: RequestContext) -> None:
        super().__init__(context.services.turns)
        self._context = context

    async def rest(self) -> None:
        self._context.is_large = True
        await super().rest()
