from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.client import Record, wait_until
from conformance.scenarios.run import Run, attempt, create, find_offset

if TYPE_CHECKING:
    from conformance.client import Client, Json

COUNT = 4
TIME_MS = 1_700_000_000_000


def retention(client: Client, run: Run) -> Json:
    """Records that outlived their retention go, the offsets stay: what is produced next comes behind them."""
    topic = run.topic("short-lived")
    create(client, topic, configs={"retention.ms": "1"})
    records = [Record(b"%d" % index, timestamp_ms=TIME_MS) for index in range(COUNT)]
    seen: dict[str, Json] = {
        "produced": attempt(lambda: client.produce(topic, records, codec="none", acks="all")),
    }
    wait_until(lambda: find_offset(client, topic, "earliest") == COUNT, "the records are gone")
    seen["earliest"] = attempt(lambda: client.list_offset(topic, 0, "earliest"))
    client.alter_configs(topic, {"retention.ms": "-1"})
    seen["next"] = attempt(lambda: client.produce(topic, [Record(b"next")], codec="none", acks="all"))
    seen["latest"] = attempt(lambda: client.list_offset(topic, 0, "latest"))
    return seen
