"""How many connections may be open, in all and from one address, how fast new ones may come, and how much memory
their unfinished requests may take."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable

logger = logging.getLogger(__name__)

UNLIMITED = -1
DESCRIPTORS_RESERVED_MAX = 64
"""For what is neither a connection nor a segment: the metadata, a flush under way, files that are open for a moment."""
COUNT_MIN = 8
"""As many connections are allowed however few descriptors there are."""


def count_for(descriptors_max: int, log_files_max: int) -> int:
    """How many connections leave the log and the rest of the broker the descriptors that they need."""
    reserved = min(descriptors_max // 4, DESCRIPTORS_RESERVED_MAX)
    return max(descriptors_max - log_files_max - reserved, COUNT_MIN)


class ConnectionLimits:
    """Counts open connections against `max.connections`, `max.connections.per.ip` and a rate.

    They are also counted against the system's limit of open files, should that be lower: a log that finds no
    descriptor cannot make records durable, and one client more is not worth that.

    A connection over a limit is accepted and closed at once, which is the only way to tell its peer.
    """

    def __init__(
        self,
        count_max: int,
        count_per_host_max: int,
        overrides: dict[str, int],
        created_per_second_max: int,
    ) -> None:
        self.update(count_max, count_per_host_max, overrides, created_per_second_max)
        self._count = 0
        self._count_by_host: Counter[str] = Counter()
        self._second = 0
        self._created_in_second = 0
        self._descriptors_max = self._count_for_descriptors = sys.maxsize

    def leave_descriptors(self, descriptors_max: int, log_files_max: int) -> None:
        """The process may have so many descriptors, and so many of them are the log's."""
        self._descriptors_max = descriptors_max
        self._count_for_descriptors = count_for(descriptors_max, log_files_max)

    def update(
        self, count_max: int, count_per_host_max: int, overrides: dict[str, int], created_per_second_max: int
    ) -> None:
        """The settings may change while connections are open; those stay."""
        self._count_max = count_max
        self._count_per_host_max = count_per_host_max
        self._overrides = overrides
        self._created_per_second_max = created_per_second_max

    def admit(self, host: str, now_seconds: float) -> bool:
        reason = self._refusal(host, now_seconds)
        if reason:
            logger.warning("refused a connection from %s: %s", host, reason)
            return False
        self._count += 1
        self._count_by_host[host] += 1
        return True

    def release(self, host: str) -> None:
        self._count -= 1
        self._count_by_host[host] -= 1
        if not self._count_by_host[host]:
            del self._count_by_host[host]

    def _refusal(self, host: str, now_seconds: float) -> str | None:
        if self._count >= self._count_max:
            return f"max.connections={self._count_max} are open"
        if self._count >= self._count_for_descriptors:
            return (
                f"{self._count} are open, and the rest of the {self._descriptors_max} files that the system allows "
                "are for the log; raise that limit (ulimit -n), or set max.connections to what is meant to be enough"
            )
        host_max = self._overrides.get(host, self._count_per_host_max)
        if self._count_by_host[host] >= host_max:
            return f"max.connections.per.ip={host_max} are open from this address"
        if int(now_seconds) != self._second:
            self._second = int(now_seconds)
            self._created_in_second = 0
        self._created_in_second += 1
        if self._created_in_second > self._created_per_second_max:
            return f"max.connection.creation.rate={self._created_per_second_max} per second is exceeded"
        return None


class FrameMemory:
    """The memory of all connections' receive buffers, against `queued.max.request.bytes`.

    When it is used up, connections whose request needs a larger buffer are not read from until others have
    given theirs back. Small requests need no larger buffer and go on.
    """

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._used_bytes = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def exhausted(self) -> bool:
        return self._size_bytes_max != UNLIMITED and self._used_bytes >= self._size_bytes_max

    def change(self, size_bytes: int) -> None:
        self._used_bytes += size_bytes
        if size_bytes < 0 and self._waiting and not self.exhausted:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting:
                resume()

    def when_free(self, resume: Callable[[], None]) -> None:
        self._waiting[resume] = None

    def forget(self, resume: Callable[[], None]) -> None:
        self._waiting.pop(resume, None)
