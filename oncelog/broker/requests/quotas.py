"""Bytes per second that a client may produce and fetch, and how long it must wait when it took more.

As in Kafka, a rate is measured over a window of samples (`quota.window.num` of `quota.window.size.seconds`), and
a client that exceeds its quota is told a throttle time and is not read from until it has passed (KIP-219).
A quota belongs to a user, a client id, or both; of those that match, the most specific one counts, and all
clients that share it share its rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.broker.base.clock import Clock
    from oncelog.broker.requests.context import RequestContext

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
ANONYMOUS = "ANONYMOUS"
DEFAULT = None
"""In an entity, None as a name stands for "every name that has no quota of its own"."""

RATES_MAX = 10_000
INT32_MAX = 2**31 - 1

Entity = tuple[tuple[str, str | None], ...]
"""Sorted pairs such as (("client-id", "etl"), ("user", None))."""

_SPECIFICITY: tuple[tuple[tuple[str, bool], ...], ...] = (
    (("client-id", True), ("user", True)),
    (("client-id", False), ("user", True)),
    (("user", True),),
    (("client-id", True), ("user", False)),
    (("client-id", False), ("user", False)),
    (("user", False),),
    (("client-id", True),),
    (("client-id", False),),
)
"""From the most specific kind of entity to the least; True stands for a name, False for the default."""


class Rate:
    """Bytes in the last few samples."""

    __slots__ = ("_sample_seconds", "_samples", "_samples_max")

    def __init__(self, samples_max: int, sample_seconds: float) -> None:
        self._samples_max = samples_max
        self._sample_seconds = sample_seconds
        self._samples: deque[list[float]] = deque()

    def record(self, size_bytes: int, now_seconds: float) -> float:
        """Count the bytes; the rate in bytes per second, these included."""
        samples = self._samples
        if not samples or now_seconds - samples[-1][0] >= self._sample_seconds:
            samples.append([now_seconds, 0.0])
        samples[-1][1] += size_bytes
        horizon = now_seconds - self._samples_max * self._sample_seconds
        while samples[0][0] < horizon:
            samples.popleft()
        return self.total_bytes / self.window_seconds(now_seconds)

    def is_idle(self, since_seconds: float) -> bool:
        return not self._samples or self._samples[-1][0] < since_seconds

    @property
    def total_bytes(self) -> float:
        return sum(sample[1] for sample in self._samples)

    def window_seconds(self, now_seconds: float) -> float:
        """The time that the samples stand for: never less than all full windows but one, so that the first
        bytes of a quiet client do not look like a burst."""
        elapsed = now_seconds - self._samples[0][0]
        return max(elapsed, (self._samples_max - 1) * self._sample_seconds)


class Quotas:
    def __init__(self, clock: Clock, samples_max: int, sample_seconds: float) -> None:
        self._clock = clock
        self._samples_max = samples_max
        self._sample_seconds = sample_seconds
        self._limits: dict[str, dict[Entity, float]] = {PRODUCE: {}, FETCH: {}}
        self._rates: dict[tuple[str, Entity], Rate] = {}
        self.produce_limited = False
        self.fetch_limited = False

    def update(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Take over the quotas of the metadata image."""
        for kind, limits in self._limits.items():
            limits.clear()
            limits.update({entity: values[kind] for entity, values in quotas.items() if kind in values})
        self.produce_limited = bool(self._limits[PRODUCE])
        self.fetch_limited = bool(self._limits[FETCH])
        self._rates.clear()

    def produced(self, context: RequestContext, size_bytes: int) -> int:
        return self._record(PRODUCE, context.client_id or "", size_bytes)

    def fetched(self, context: RequestContext, size_bytes: int) -> int:
        return self._record(FETCH, context.client_id or "", size_bytes)

    def fetch_size_bytes_max(self, context: RequestContext) -> int:
        """What a client may fetch within one window: all full samples at its rate."""
        found = self.limit(FETCH, ANONYMOUS, context.client_id or "")
        if found is None:
            return INT32_MAX
        window_seconds = (self._samples_max - 1) * self._sample_seconds
        return min(int(found[1] * window_seconds), INT32_MAX)

    def limit(self, kind: str, user: str, client_id: str) -> tuple[Entity, float] | None:
        """The quota that counts for a client, with the entity whose rate it shares."""
        names = {"user": user, "client-id": client_id}
        for pattern in _SPECIFICITY:
            configured = tuple((name, names[name] if exact else DEFAULT) for name, exact in pattern)
            value = self._limits[kind].get(configured)
            if value is not None:
                return tuple((name, names[name]) for name, _ in pattern), value
        return None

    def _forget_idle(self, now_seconds: float) -> None:
        """With a default quota, every client id that ever came has a rate; those that are quiet need none."""
        window_seconds = self._samples_max * self._sample_seconds
        self._rates = {key: rate for key, rate in self._rates.items() if not rate.is_idle(now_seconds - window_seconds)}

    def _record(self, kind: str, client_id: str, size_bytes: int) -> int:
        """Count the bytes and give the throttle time in milliseconds."""
        found = self.limit(kind, ANONYMOUS, client_id)
        if found is None:
            return 0
        entity, limit = found
        now_seconds = self._clock.monotonic()
        rate = self._rates.get((kind, entity))
        if rate is None:
            if len(self._rates) >= RATES_MAX:
                self._forget_idle(now_seconds)
            rate = self._rates[kind, entity] = Rate(self._samples_max, self._sample_seconds)
        if rate.record(size_bytes, now_seconds) <= limit:
            return 0
        window_seconds = rate.window_seconds(now_seconds)
        throttle_seconds = rate.total_bytes / limit - window_seconds
        return round(min(throttle_seconds, self._samples_max * self._sample_seconds) * 1000)
