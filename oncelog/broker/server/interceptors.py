"""What stands between the dispatcher and a handler: authentication, authorization, metering, request logs, faults.

An interceptor wraps the handler of an API when the API is first asked for. It sees each request once, also one that its
handler gets in chunks, and may refuse it, change its result or do something before and after. Where it has nothing to
do with an API it returns the handler itself, so that a feature that is off costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from oncelog.broker.handlers import Api
    from oncelog.broker.requests.context import RequestContext

    Handle = Callable[[Any, RequestContext], Any]
    """Takes a request; gives a response, a future of it, or a coroutine."""


_request_logger = logging.getLogger("oncelog.broker.server.request_log")


class Interceptor(Protocol):
    def wrap(self, api: Api, handle: Handle) -> Handle:
        """The handler with this interceptor around it."""


class RequestLog:
    """Writes a line for each request while the level of its logger is DEBUG. See `request_log`."""

    @staticmethod
    def is_on() -> bool:
        return _request_logger.isEnabledFor(logging.DEBUG)

    def wrap(self, api: Api, handle: Handle) -> Handle:
        if not self.is_on():
            return handle
        from oncelog.broker.server.request_log import log_requests

        return log_requests(api, handle)


def intercept(interceptors: Iterable[Interceptor], api: Api, handle: Handle) -> Handle:
    """The handler with all interceptors around it; the first one sees a request first."""
    for interceptor in reversed(list(interceptors)):
        handle = interceptor.wrap(api, handle)
    return handle
