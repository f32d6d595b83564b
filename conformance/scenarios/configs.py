from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.client import wait_until
from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from conformance.client import Client, Json


def configs(client: Client, run: Run) -> Json:
    """All configs of a topic with their sources; set, reset, and every kind of wrong change."""
    topic, absent = run.topic("configured"), run.topic("absent")
    create(client, topic, configs={"segment.ms": "123456"})
    seen: dict[str, Json] = {"created": attempt(lambda: client.describe_configs(topic))}

    seen["set"] = _change(client, topic, {"retention.ms": "5000", "cleanup.policy": "compact"})
    seen["after set"] = attempt(lambda: client.describe_configs(topic))
    seen["reset"] = _change(client, topic, {"retention.ms": None, "max.message.bytes": "2000"})
    seen["after reset"] = attempt(lambda: client.describe_configs(topic))

    wrong: dict[str, Callable[[], Json]] = {
        "describe what is absent": lambda: client.describe_configs(absent),
        "alter what is absent": lambda: client.alter_configs(absent, {"retention.ms": "1"}),
        "an unknown config": lambda: client.alter_configs(topic, {"no.such.config": "1"}),
        "a bad number": lambda: client.alter_configs(topic, {"retention.ms": "soon"}),
        "a bad choice": lambda: client.alter_configs(topic, {"cleanup.policy": "burn"}),
        "below the minimum": lambda: client.alter_configs(topic, {"max.message.bytes": "-1"}),
    }
    seen.update({label: attempt(call) for label, call in wrong.items()})
    seen["after wrong changes"] = attempt(lambda: client.describe_configs(topic))
    return seen


def _change(client: Client, topic: str, changes: Mapping[str, str | None]) -> Json:
    before = client.describe_configs(topic)
    outcome = attempt(lambda: client.alter_configs(topic, changes))
    wait_until(lambda: client.describe_configs(topic) != before, f"{topic} has its new configs")
    return outcome
