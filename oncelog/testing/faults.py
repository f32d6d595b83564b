"""Faults on request: what can happen to a request between a client and a broker, made to happen.

    fault = broker.faults.inject(api="EndTxn", nth=3, action="drop-reply")

The actions, for the nth request of that API from now on:

    drop-reply      the request takes effect, then the connection breaks before the answer is out
    disconnect      the connection breaks before the request takes effect
    delay           the request, and what its connection sends behind it, waits for `delay_ms`
    error:CODE      the request is not handled but answered with that error, such as error:COORDINATOR_NOT_AVAILABLE
    crash-before    the broker is killed before the request takes effect; for Broker(subprocess=True)
    crash-after     the broker is killed when the answer would go out
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

ACTIONS = ("drop-reply", "disconnect", "delay", "crash-before", "crash-after")
DELAY_MS_DEFAULT = 1000
_ERROR = "error:"

Command = Callable[[str, dict[str, Any]], Any]
"""Has the running broker do something: its name and arguments."""


class FaultPlan(NamedTuple):
    """Which requests are hit, and how."""

    api_key: int
    action: str
    nth: int = 1
    times: int = 1
    """How many of them from the nth on; 0 for all."""
    client_id: str | None = None
    """Only those of this client, if given."""
    delay_ms: int = DELAY_MS_DEFAULT

    @property
    def error(self) -> ErrorCode | None:
        return ErrorCode[self.action[len(_ERROR) :]] if self.action.startswith(_ERROR) else None

    def hits(self, count: int) -> bool:
        """Whether the request that is the `count`th of its kind is one of them."""
        return count >= self.nth and (not self.times or count < self.nth + self.times)


class Fault:
    """A fault that was injected into a running broker."""

    def __init__(self, command: Command, number: int) -> None:
        self._command = command
        self._number = number

    @property
    def hits(self) -> int:
        """How many requests it has hit so far."""
        hits: int = self._command("fault_hits", {"number": self._number})
        return hits

    def remove(self) -> None:
        """Let requests pass again. Those that are already delayed stay so."""
        self._command("remove_fault", {"number": self._number})


class Faults:
    """`broker.faults`. A broker that was restarted has none."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def inject(
        self,
        api: str,
        action: str,
        *,
        nth: int = 1,
        times: int = 1,
        client_id: str | None = None,
        delay_ms: int = DELAY_MS_DEFAULT,
    ) -> Fault:
        """Have the nth request of an API, counted from now on, meet its fate, and `times` - 1 after it.

        `api` is a name such as "EndTxn"; with `client_id` only that client's requests count.
        """
        plan = FaultPlan(_api_key(api), _checked(action), nth, times, client_id, delay_ms)
        return Fault(self._command, self._command("inject_fault", plan._asdict()))

    def clear(self) -> None:
        """Remove all faults."""
        self._command("clear_faults", {})


class BrokerClock:
    """`broker.clock`: the time by which the broker measures timeouts and sessions."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def advance(self, duration_ms: int) -> None:
        """Let time pass at once: what is due by then, such as the timeout of a transaction, happens now."""
        self._command("advance_clock", {"duration_ms": duration_ms})


def _api_key(api: str) -> int:
    for key in ApiKey:
        if key.camel == api:
            return key
    raise ValueError(f"there is no API {api!r}; names are such as 'EndTxn' or 'Produce'")


def _checked(action: str) -> str:
    code = action.removeprefix(_ERROR)
    if action in ACTIONS or (code != action and code in ErrorCode.__members__):
        return action
    raise ValueError(f"there is no action {action!r}; there are {', '.join(ACTIONS)} and error:CODE")
