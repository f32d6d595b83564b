"""One broker's side of the comparison: sends, and writes down each answer under a label."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from conformance.wire.link import PATIENCE_S, Link, NoAnswer, decode_answer
from conformance.wire.normalise import Names, plain
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from conformance.client import Json
    from oncelog.protocol.schema import Message, Struct

PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Errors that pass by themselves. Kafka ends transactions and makes its internal topics behind an answer."""


class Step(NamedTuple):
    api: ApiKey
    version: int
    label: str
    seen: Json


class Talk:
    def __init__(self, address: str, silence_s: float = PATIENCE_S) -> None:
        """After `silence_s` without an answer, silence is what is written down."""
        self.names = Names()
        self.kept: dict[str, Any] = {}
        self.steps: list[Step] = []
        self._link = Link(address)
        self._silence_s = silence_s
        self._case = ""
        self._count = 0

    def begin(self, case: str) -> None:
        """From here on, names are fresh and numbers of ids begin anew."""
        self._case, self._count, self.steps = case.replace(" ", "-"), 0, []
        self.names.forget()

    def fresh(self, what: str) -> str:
        """A name that nobody used before, and that is the same on every broker."""
        self._count += 1
        return f"{self._case}-{what}-{self._count}"

    def say(self, request: Message, version: int, label: str, *, passing: Collection[int] = PASSING) -> Any:
        """Send, write down, and return the decoded answer; None if there is none. Passing errors are waited out."""
        assert request.API_KEY is not None
        try:
            answer = self.ask(request, version, passing=passing, timeout_s=self._silence_s)
            seen: Json = plain(answer, version, self.names)
        except NoAnswer as error:
            answer, seen = None, str(error)
        self.steps.append(Step(ApiKey(request.API_KEY), version, label, seen))
        return answer

    def exchange(self, payload: bytes, api: ApiKey, version: int, label: str) -> None:
        """Send a frame that may be no request at all, and write down the answer."""
        self._exchange(self._link.exchange, payload, api, version, label)

    def exchange_bytes(self, data: bytes, api: ApiKey, version: int, label: str) -> None:
        """Send bytes that may be no frame, and write down the answer, of which none is expected."""
        self._exchange(self._link.exchange_bytes, data, api, version, label)

    def _exchange(
        self, exchange: Callable[[bytes, float], bytes], data: bytes, api: ApiKey, version: int, label: str
    ) -> None:
        try:
            frame = exchange(data, self._silence_s)
            seen: Json = plain(decode_answer(frame, api, version), version, self.names)
        except NoAnswer as error:
            seen = str(error)
        self.steps.append(Step(api, version, label, seen))

    def ask(
        self,
        request: Message,
        version: int,
        *,
        passing: Collection[int] = PASSING,
        timeout_s: float = PATIENCE_S,
    ) -> Any:
        """Send and return the answer without writing it down."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._link.ask(request, version, timeout_s)
            if not any(code in passing for code in error_codes(answer)) or time.monotonic() > deadline:
                return answer
            time.sleep(0.01)

    def create_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic, unseen, and wait until the broker tells of it."""
        settings = {"retention.ms": "-1", **(configs or {})}
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )
        self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        self.await_topic(name, partitions)
        self.wait_until(lambda: self._serves(name, partitions), f"{name} is served")
        return name

    def _serves(self, name: str, partitions: int) -> bool:
        """Kafka tells of a leader before that leader has opened its logs."""
        asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked)])
        return not any(error_codes(self.ask(request, 7)))

    def await_topic(self, name: str, partitions: int = 1) -> None:
        self.wait_until(lambda: self._is_there(name, partitions), f"{name} has {partitions} partitions")

    def await_absence(self, name: str) -> None:
        self.wait_until(lambda: self._look_up(name).error_code != ErrorCode.NONE, f"{name} is gone")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain until {what}"
            time.sleep(0.01)

    def _is_there(self, name: str, partitions: int) -> bool:
        topic = self._look_up(name)
        if len(topic.partitions) != partitions or any(part.leader_id < 0 for part in topic.partitions):
            return False
        self.names.topics[topic.topic_id] = name
        self.kept[f"id of {name}"] = topic.topic_id
        return True

    def _look_up(self, name: str) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return self.ask(request, 12).topics[0]

    def topic_id(self, name: str) -> bytes:
        found: bytes = self.kept[f"id of {name}"]
        return found

    def close(self) -> None:
        self._link.close()


def error_codes(answer: Struct) -> list[int]:
    """All error codes of an answer, at whatever depth."""
    found: list[int] = []
    for field in type(answer).fields():
        value = getattr(answer, field.name, None)
        if field.name == "error_code":
            found.append(value)  # type: ignore[arg-type]
        elif isinstance(value, list):
            for item in value:
                if hasattr(type(item), "fields"):
                    found += error_codes(item)
    return found
