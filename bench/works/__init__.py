"""The kinds of work, in the order in which a full run does them: what the goals rest on comes first, as long as time
lasts."""

from __future__ import annotations

from bench.case import Work
from bench.works.biglog import BigLog
from bench.works.consume import Consume
from bench.works.groups import Groups
from bench.works.growth import IdleConnections, Partitions
from bench.works.java import Java
from bench.works.latency import Latency
from bench.works.produce import Produce
from bench.works.requests import Connections, Requests
from bench.works.saturate import Saturate
from bench.works.start import Memory, Start
from bench.works.transactions import Transactions
from bench.works.transform import Transform

# Memory is measured at the end, of peers that have done all the work before it.
_ORDER: tuple[type[Work], ...] = (
    Produce,
    Consume,
    Latency,
    Transactions,
    Transform,
    Start,
    Partitions,
    IdleConnections,
    BigLog,
    Saturate,
    Connections,
    Requests,
    Java,
    Groups,
    Memory,
)
WORKS: dict[str, Work] = {work.name: work() for work in _ORDER}
