"""The time that a client gives to a change of the cluster."""

from __future__ import annotations

from oncelog.protocol.errors import ErrorCode, KafkaError


def check_deadline(timeout_ms: int) -> None:
    """Whoever allows less than no time is not waiting any more, and nothing is changed on its behalf."""
    if timeout_ms < 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"the deadline is over: timeout_ms is {timeout_ms}")
