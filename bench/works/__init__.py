"""The kinds of work, in the order in which a full run does them: what the goals rest on comes first."""

from __future__ import annotations

from bench.case import Work
from bench.works.produce import Produce

WORKS: dict[str, Work] = {work.name: work for work in (Produce(),)}
