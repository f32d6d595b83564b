from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.client import wait_until
from conformance.scenarios.run import Run, attempt

if TYPE_CHECKING:
    from conformance.client import Client, Json


def create_topics(client: Client, run: Run) -> Json:
    """Topics come with their partitions, grow, vanish, and can only be tried."""
    three, tried = run.topic("three"), run.topic("tried")
    client.create_topic(three, partitions=3, configs={"retention.ms": "1000000", "cleanup.policy": "compact,delete"})
    wait_until(lambda: "ok" in str(attempt(lambda: list(client.describe_topic(three)))), "it is there")
    seen: dict[str, Json] = {"described": attempt(lambda: list(client.describe_topic(three)))}

    seen["grown"] = attempt(lambda: client.create_partitions(three, 5))
    wait_until(lambda: len(client.describe_topic(three)) == 5, "the new partitions are visible")
    seen["described again"] = attempt(lambda: list(client.describe_topic(three)))

    seen["tried"] = attempt(lambda: client.create_topic(tried, validate_only=True))
    seen["after the trial"] = attempt(lambda: list(client.describe_topic(tried)))

    seen["deleted"] = attempt(lambda: client.delete_topic(three))
    wait_until(lambda: "error" in str(attempt(lambda: list(client.describe_topic(three)))), "it is gone")
    seen["described after deletion"] = attempt(lambda: list(client.describe_topic(three)))
    seen["created again"] = attempt(lambda: client.create_topic(three, partitions=1))
    return seen
