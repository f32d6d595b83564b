"""How metrics are called on the terminal and on the page, and which direction is the good one."""

from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    label: str
    more_is_better: bool | None
    digits: int = 1


METRICS = {
    "mb_per_s": Metric("MB/s", True),
    "records_per_s": Metric("records/s", True, 0),
    "requests_per_s": Metric("requests/s", True, 0),
    "transactions_per_s": Metric("txn/s", True),
    "p50_ms": Metric("p50 ms", False, 3),
    "p99_ms": Metric("p99 ms", False, 3),
    "p999_ms": Metric("p99.9 ms", False, 3),
    "cpu_ms_per_mb": Metric("broker CPU ms/MB", False, 2),
    "cpu_us_per_request": Metric("broker CPU µs/request", False, 1),
    "cpu_ms_per_transaction": Metric("broker CPU ms/txn", False, 2),
    "broker_cpu_s": Metric("broker CPU s", False, 2),
    "seconds": Metric("seconds", False, 3),
    "join_s": Metric("join s", False, 2),
    "leave_s": Metric("leave s", False, 2),
    "start_s": Metric("start to ready s", False, 3),
    "recovery_s": Metric("kill -9 to ready s", False, 2),
    "create_s": Metric("to create s", False, 2),
    "idle_rss_mb": Metric("idle RSS MB", False, 0),
    "idle_cpu_ms_per_s": Metric("idle CPU ms/s", False, 1),
    "client_cpu_s": Metric("client CPU s", None, 1),
    "broker_cores": Metric("broker cores", None, 2),
    "client_cores": Metric("client cores", None, 2),
    "rss_mb": Metric("RSS MB", False, 0),
    "peak_rss_mb": Metric("peak RSS MB", False, 0),
}


def metric(name: str) -> Metric:
    return METRICS.get(name) or Metric(name.replace("_", " "), None)


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"
