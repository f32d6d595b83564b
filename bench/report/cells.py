"""A figure of a peer beside its ratio to Apache Kafka, as the terminal and the page show it."""

from __future__ import annotations

from bench.report.metrics import metric, number
from bench.results import CaseResult
from bench.stats import ratio, spread

BASE = "kafka"


def cell(case: CaseResult, peer: str, name: str, absent: str) -> str:
    values = case.values(peer, name)
    if not values:
        return absent
    text = number(spread(values).median, metric(name).digits)
    if peer == BASE or metric(name).more_is_better is None:
        return text
    against = ratio(values, case.values(BASE, name))
    return f"{text} ({against.median:.2f}x)" if against is not None else text
