"""Clients in other languages: an agent process that answers lines of JSON, whatever it is written in."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from conformance.client import REQUEST_SIZE_BYTES_MAX, ClientError, Json, Record, UnsupportedError, show
from conformance.client_log import CLIENT_LOG, open_client_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.client import GroupConsumer

STOP_TIMEOUT_S = 10.0


class AgentClient:
    """`protocols` has the group protocols that the client speaks; `specs`, the names of offsets that it knows."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        protocols: Sequence[str] = ("classic",),
        specs: Sequence[str] = ("earliest", "latest"),
        static_members: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._protocols, self._specs, self._static_members = protocols, specs, static_members
        # In a session of its own it does not hear the Ctrl-C that ends the harness, which then ends it in order.
        with open_client_log() as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                env=env,
                start_new_session=True,
            )

    def ask(self, op: str, **arguments: Any) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"the agent ended with exit code {self._process.wait()}; see {CLIENT_LOG}")
        answer = json.loads(line)
        if "unsupported" in answer:
            raise UnsupportedError(answer["unsupported"])
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["ok"]

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> Json:
        self.ask(
            "create_topic",
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=dict(configs or {}),
            validate_only=validate_only,
        )
        return None

    def delete_topic(self, name: str) -> Json:
        self.ask("delete_topic", name=name)
        return None

    def create_partitions(self, name: str, total: int) -> Json:
        self.ask("create_partitions", name=name, total=total)
        return None

    def describe_topic(self, name: str) -> list[Json]:
        found: list[Json] = self.ask("describe_topic", name=name)
        return found

    def describe_configs(self, topic: str) -> dict[str, Json]:
        found: dict[str, Json] = self.ask("describe_configs", topic=topic)
        return found

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> Json:
        self.ask("alter_configs", topic=topic, changes=dict(changes))
        return None

    def produce(self, topic: str, records: Sequence[Record], *, codec: str, acks: str) -> Json:
        told = [
            {
                "value": _text(record.value),
                "key": _text(record.key),
                "headers": [[name, _text(value)] for name, value in record.headers],
                "timestamp_ms": record.timestamp_ms,
            }
            for record in records
        ]
        sent: Json = self.ask(
            "produce", topic=topic, records=told, codec=codec, acks=acks, size_max=REQUEST_SIZE_BYTES_MAX
        )
        return sent

    def consume(self, topic: str, count: int, *, fetch_size_bytes: int | None = None) -> list[Json]:
        found = self.ask("consume", topic=topic, count=count, fetch_size=fetch_size_bytes)
        if len(found) < count:
            raise ClientError(f"only {len(found)} of {count} records arrived")
        return [{**record, "value": _shown(record["value"])} for record in found]

    def list_offset(self, topic: str, partition: int, spec: str) -> Json:
        if not spec.isdigit() and spec not in self._specs:
            raise UnsupportedError(spec)
        found: Json = self.ask("list_offset", topic=topic, partition=partition, spec=spec)
        return found

    def open_consumer(
        self,
        topic: str,
        group: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        isolation: str = "read_uncommitted",
    ) -> AgentConsumer:
        if protocol not in self._protocols:
            raise UnsupportedError(f"group protocol {protocol}")
        if instance is not None and not self._static_members:
            raise UnsupportedError("static members")
        handle = self.ask(
            "open_consumer", topic=topic, group=group, protocol=protocol, instance=instance, isolation=isolation
        )
        return AgentConsumer(self, handle, topic)

    def open_producer(self, transactional_id: str | None, *, timeout_ms: int = 60_000) -> AgentProducer:
        handle = self.ask("open_producer", transactional_id=transactional_id, timeout_ms=timeout_ms)
        return AgentProducer(self, handle)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class AgentConsumer:
    def __init__(self, agent: AgentClient, handle: int, topic: str) -> None:
        self._agent, self.handle, self._topic = agent, handle, topic

    def poll(self, seconds: float) -> list[Json]:
        found: list[Json] = self._agent.ask("poll", handle=self.handle, seconds=seconds)
        return found

    def assigned(self) -> int:
        return int(self._agent.ask("assigned", handle=self.handle))

    def commit(self) -> Json:
        self._agent.ask("commit_offsets", handle=self.handle)
        return None

    def committed(self, partition: int) -> Json:
        found: Json = self._agent.ask("committed", handle=self.handle, topic=self._topic, partition=partition)
        return found

    def close(self) -> None:
        self._agent.ask("close", handle=self.handle)


class AgentProducer:
    def __init__(self, agent: AgentClient, handle: int) -> None:
        self._agent, self._handle = agent, handle

    def init(self) -> None:
        self._agent.ask("init", handle=self._handle)

    def begin(self) -> None:
        self._agent.ask("begin", handle=self._handle)

    def send(self, topic: str, value: bytes) -> Json:
        sent: Json = self._agent.ask("send", handle=self._handle, topic=topic, value=_text(value))
        return sent

    def send_offset(self, consumer: GroupConsumer, topic: str, offset: int) -> None:
        assert isinstance(consumer, AgentConsumer)
        self._agent.ask("send_offset", handle=self._handle, consumer=consumer.handle, topic=topic, offset=offset)

    def commit(self) -> None:
        self._agent.ask("commit", handle=self._handle)

    def abort(self) -> None:
        self._agent.ask("abort", handle=self._handle)

    def close(self) -> None:
        self._agent.ask("close", handle=self._handle)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _shown(text: str | None) -> Json:
    return show(None if text is None else text.encode("latin-1"))
