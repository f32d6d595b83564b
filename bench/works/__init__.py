"""The kinds of work, in the order in which a full run does them: what the goals rest on comes first."""

from __future__ import annotations

from bench.case import Work
from bench.works.consume import Consume
from bench.works.latency import Latency
from bench.works.produce import Produce
from bench.works.transactions import Transactions
from bench.works.transform import Transform

WORKS: dict[str, Work] = {work.name: work for work in (Produce(), Consume(), Latency(), Transactions(), Transform())}
