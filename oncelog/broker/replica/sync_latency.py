"""Whether the event loop may sync files by itself, as far as its own syncs tell.

The measure is taken on the loop only: a thread of a busy process waits for the interpreter after its sync, and would
take the disk to be slow. So a loop that has left the syncs to threads tries again after some rounds, ever more of them
as long as the disk stays slow.
"""

from __future__ import annotations

ROUND_SECONDS_MAX = 0.001
"""What a round may take on average: as much as a dozen small requests."""
SECONDS_PER_BYTE = 1e-9
"""What it may take beyond that: to receive and to check a megabyte keeps the loop busy for a millisecond and more."""
STALL_SECONDS = 0.05
"""One round that takes this long is enough to leave the disk to threads."""
ROUNDS_BEFORE_TRIAL_MIN = 64
ROUNDS_BEFORE_TRIAL_MAX = 4096

_SMOOTHING = 0.1
_COUNTED_SECONDS_MAX = 4 * ROUND_SECONDS_MAX
"""A single slow round among fast ones does not count for more."""


class DiskPace:
    def __init__(self) -> None:
        self._average_seconds: float | None = None
        self._pause_rounds = ROUNDS_BEFORE_TRIAL_MIN
        self._rounds_before_trial = ROUNDS_BEFORE_TRIAL_MIN

    @property
    def is_fast(self) -> bool:
        """Whether the loop need not ask, as its last sync took no time to speak of."""
        return not self._rounds_before_trial

    def allows_loop(self) -> bool:
        """Asked for each round that the loop might do."""
        if self._rounds_before_trial:
            self._rounds_before_trial -= 1
            return False
        return True

    def note(self, seconds: float, size_bytes: int) -> None:
        """A round on the loop took so long for so much."""
        counted = min(max(seconds - size_bytes * SECONDS_PER_BYTE, 0), _COUNTED_SECONDS_MAX)
        average = counted if self._average_seconds is None else self._average_seconds
        average += _SMOOTHING * (counted - average)
        if seconds >= STALL_SECONDS or average > ROUND_SECONDS_MAX:
            self._average_seconds = None
            self._rounds_before_trial = self._pause_rounds
            self._pause_rounds = min(2 * self._pause_rounds, ROUNDS_BEFORE_TRIAL_MAX)
        else:
            self._average_seconds = average
            self._pause_rounds = ROUNDS_BEFORE_TRIAL_MIN
