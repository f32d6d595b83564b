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

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Protocol

from oncelog.broker.handlers import APIS
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

CRASHES = ("crash-before", "crash-after")
ACTIONS = ("drop-reply", "disconnect", "delay", *CRASHES)
DELAY_MS_DEFAULT = 1000
_ERROR = "error:"


class RunningBroker(Protocol):
    """One run of a broker, from its start to its end."""

    port: int
    can_crash: bool

    @property
    def pid(self) -> int: ...

    @property
    def is_alive(self) -> bool: ...

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        """Have the broker do something. RuntimeError if it has ended, TimeoutError if it does not answer."""

    def stop(self) -> None:
        """Shut down cleanly."""

    def end(self) -> None:
        """End it in any state, without an error."""


Run = Callable[[], RunningBroker]
"""The run that goes on now; RuntimeError if there is none."""


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
    """A fault that was injected into a running broker. It ends with that run."""

    def __init__(self, current: Run, run: RunningBroker, number: int) -> None:
        self._current = current
        self._run = run
        self._number = number

    @property
    def hits(self) -> int:
        """How many requests it has hit so far."""
        hits: int = self._command("fault_hits")
        return hits

    def remove(self) -> None:
        """Let requests pass again. Those that are already delayed stay so."""
        self._command("remove_fault")

    def _command(self, name: str) -> Any:
        if self._current() is not self._run:
            raise RuntimeError("this fault was injected before a restart, and a restarted broker has no faults")
        return self._run.command(name, {"number": self._number})


class Faults:
    """`broker.faults`. A broker that was restarted has none."""

    def __init__(self, current: Run) -> None:
        self._current = current

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
        if client_id is not None and not isinstance(client_id, str):
            raise ValueError(f"client_id must be a string, not {client_id!r}")
        plan = FaultPlan(
            _api_key(api),
            _checked_action(action),
            _checked_number("nth", nth, 1),
            _checked_number("times", times, 0),
            client_id,
            _checked_number("delay_ms", delay_ms, 0),
        )
        run = self._current()
        if action in CRASHES and not run.can_crash:
            raise ValueError("only Broker(subprocess=True) can crash: this one is in your own process")
        return Fault(self._current, run, run.command("inject_fault", plan._asdict()))

    def clear(self) -> None:
        """Remove all faults."""
        self._current().command("clear_faults", {})


class BrokerClock:
    """`broker.clock`: the time by which the broker measures timeouts and sessions."""

    def __init__(self, current: Run) -> None:
        self._current = current

    def advance(self, duration_ms: int) -> None:
        """Let time pass at once: what is due by then, such as the timeout of a transaction, happens now."""
        run = self._current()
        run.command("advance_clock", {"duration_ms": _checked_number("duration_ms", duration_ms, 0)})


def _api_key(api: str) -> int:
    keys = {key.camel: key for key in ApiKey}
    key = keys.get(api)
    if key is None:
        raise ValueError(f"there is no API {api!r}{_suggestion(api, keys)}; names are such as 'EndTxn' or 'Produce'")
    if key not in APIS:
        raise ValueError(f"oncelog does not serve {api}, so no request of it can be hit")
    return key


def _checked_action(action: str) -> str:
    if action in ACTIONS:
        return action
    code = action.removeprefix(_ERROR)
    if code == action:
        known = ", ".join(ACTIONS)
        raise ValueError(
            f"there is no action {action!r}{_suggestion(action, ACTIONS)}; there are {known} and error:CODE"
        )
    if code not in ErrorCode.__members__:
        raise ValueError(f"there is no error code {code!r}{_suggestion(code, ErrorCode.__members__)}")
    if ErrorCode[code] is ErrorCode.NONE:
        raise ValueError("NONE is not an error; a request that is not handled cannot be answered with success")
    return action


def _checked_number(name: str, value: int, least: int) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be a whole number, {least} or more, not {value!r}")
    return value


def _suggestion(word: str, known: Iterable[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.8)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
