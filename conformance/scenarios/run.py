"""What scenarios share: names of their own on a broker that others may use, and outcomes as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from conformance.client import Client, ClientError, Json, UnsupportedError, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Run(NamedTuple):
    """One run of one scenario. `fast` asks for the subset that `make test` has time for."""

    run_id: str
    fast: bool = False
    crash: Callable[[], None] | None = None
    """Kills the broker and starts it again; None where it belongs to somebody else."""
    restart: Callable[[], None] | None = None
    """Likewise, but stops it in order."""
    address: str = ""

    def topic(self, label: str) -> str:
        return f"conformance-{self.run_id}-{label}"

    def without_id(self, observation: Json) -> Json:
        """The observation as if every run used the same names, so that two runs can be compared."""
        if isinstance(observation, str):
            return observation.replace(self.run_id, "RUN")
        if isinstance(observation, list):
            return [self.without_id(item) for item in observation]
        if isinstance(observation, dict):
            return {key: self.without_id(item) for key, item in observation.items()}
        return observation


def attempt(call: Callable[[], Json]) -> Json:
    """What the call returned, or how it failed, as a value."""
    try:
        return {"ok": call()}
    except ClientError as error:
        return {"error": str(error)}
    except UnsupportedError as error:
        return {"unsupported": str(error)}


def create(client: Client, topic: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    """Creates a topic and waits until the broker tells of it: Kafka answers before its brokers have heard."""
    make = getattr(client, "prepare_topic", client.create_topic)
    make(topic, partitions=partitions, configs=configs)
    wait_until(lambda: _count_partitions(client, topic) == partitions, f"{topic} is visible")


def find_offset(client: Client, topic: str, spec: str) -> int:
    """Some clients tell more than the offset, and the tools tell it behind the partition's name."""
    told = client.list_offset(topic, 0, spec)
    if isinstance(told, dict):
        told = told["offset"]
    return int(str(told).split()[-1].rpartition(":")[2])


def timeless(record: Json) -> Json:
    """Without the time at which the record was made, which is that of the run."""
    assert isinstance(record, dict)
    return {name: value for name, value in record.items() if name != "timestamp"}


def _count_partitions(client: Client, topic: str) -> int:
    try:
        return len(client.describe_topic(topic))
    except ClientError:
        return 0
