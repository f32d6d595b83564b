from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.client import Client, Json


def admin_errors(client: Client, run: Run) -> Json:
    """Each wrong call to create, grow or delete a topic gets Kafka's own error."""
    exists, absent = run.topic("exists"), run.topic("absent")
    create(client, exists, partitions=2)
    calls: dict[str, Callable[[], Json]] = {
        "create what exists": lambda: client.create_topic(exists),
        "try what exists": lambda: client.create_topic(exists, validate_only=True),
        "create an empty name": lambda: client.create_topic(""),
        "create a dot": lambda: client.create_topic("."),
        "create two dots": lambda: client.create_topic(".."),
        "create a blank inside": lambda: client.create_topic(f"{absent} x"),
        "create a slash inside": lambda: client.create_topic(f"{absent}/x"),
        "create 249 characters": lambda: client.create_topic(run.topic("").ljust(249, "x")),
        "create 250 characters": lambda: client.create_topic(run.topic("").ljust(250, "x")),
        "create no partition": lambda: client.create_topic(absent, partitions=0),
        "create no replica": lambda: client.create_topic(absent, replication_factor=0),
        "create three replicas": lambda: client.create_topic(absent, replication_factor=3),
        "create an unknown config": lambda: client.create_topic(absent, configs={"no.such.config": "1"}),
        "create a bad number": lambda: client.create_topic(absent, configs={"retention.ms": "soon"}),
        "create a bad choice": lambda: client.create_topic(absent, configs={"cleanup.policy": "burn"}),
        "create out of bounds": lambda: client.create_topic(absent, configs={"segment.bytes": "1"}),
        "grow to as many": lambda: client.create_partitions(exists, 2),
        "shrink": lambda: client.create_partitions(exists, 1),
        "grow to none": lambda: client.create_partitions(exists, 0),
        "grow what is absent": lambda: client.create_partitions(absent, 3),
        "delete what is absent": lambda: client.delete_topic(absent),
        "describe what is absent": lambda: list(client.describe_topic(absent)),
    }
    return {label: attempt(call) for label, call in calls.items()}
