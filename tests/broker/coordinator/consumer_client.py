"""Members of consumer groups on a simulated shard, and the metadata that they see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from simulated_shard import SimulatedShard

from oncelog.broker.coordinator.group.common import Caller, Committer
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
from oncelog.broker.coordinator.group.offsets import OffsetEntry
from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.broker.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, PartitionImage, TopicImage
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

GROUP = "g"
SESSION_MS = 45_000
HEARTBEAT_MS = 5000
REBALANCE_MS = 30_000

Owned = dict[str, set[int]]


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b"\0")


class Metadata:
    """Stands in for the cluster's metadata."""

    def __init__(self, **topics: int) -> None:
        self.image = EMPTY_IMAGE._replace(brokers={1: BrokerImage(1, None, {})})
        for name, partition_count in topics.items():
            self.set_topic(name, partition_count)

    def __call__(self) -> MetadataImage:
        return self.image

    def set_topic(self, name: str, partition_count: int) -> None:
        partitions = tuple(PartitionImage(index, (1,), (1,), 1, 0, 0) for index in range(partition_count))
        topic = TopicImage(name, topic_id(name), {}, partitions, internal=False)
        self._update({**self.image.topics, name: topic})

    def delete_topic(self, name: str) -> None:
        self._update({other: topic for other, topic in self.image.topics.items() if other != name})

    def set_group_config(self, **values: str) -> None:
        configs = {key.replace("_", "."): value for key, value in values.items()}
        self.image = self.image._replace(group_configs={GROUP: configs})

    def _update(self, topics: Mapping[str, TopicImage]) -> None:
        names = {topic.id: name for name, topic in topics.items()}
        self.image = self.image._replace(revision=self.image.revision + 1, topics=topics, topic_names=names)


class ConsumerClients:
    """A coordinator without a pause between assignments, unless a test asks for one."""

    def __init__(self, metadata: Metadata, **settings: Any) -> None:
        self.metadata = metadata
        self.settings = GroupSettings(**{"consumer_assignment_interval_ms": 0, **settings})
        self.shard = SimulatedShard(lambda limit: GroupCoordinator(lambda: self.settings, metadata, limit))
        self._ids = count(1)

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.coordinator._groups.get(GROUP)
        assert isinstance(group, ConsumerGroup)
        return group

    def heartbeat(self, member_id: str, epoch: int, *, version: int = 1, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)
        caller = Caller(version, "client", "/127.0.0.1", f"new-{next(self._ids)}")
        return self.shard.run(lambda coordinator, now: coordinator.consumer_heartbeat(request, caller, now))

    def member(self, member_id: str, *topics: str, **fields: Any) -> Client:
        client = Client(self, member_id, topics, fields)
        client.join()
        return client

    def commit(self, member_id: str, epoch: int, topic: str, *partitions: int, version: int = 9) -> list[int]:
        committer = Committer(GROUP, epoch, member_id, None, version)
        entries = [OffsetEntry(topic, partition, 1, topic_id=topic_id(topic)) for partition in partitions]
        return self.shard.run(lambda coordinator, now: coordinator.commit_offsets(committer, entries, now))

    def describe(self) -> Any:
        return self.shard.run(lambda coordinator, now: coordinator.describe_consumer(GROUP, now))


class Client:
    """A well-behaved member: it reports what it owns when that has changed, and gives up what it is told to."""

    def __init__(self, clients: ConsumerClients, member_id: str, topics: Sequence[str], fields: dict[str, Any]) -> None:
        self._clients = clients
        self.member_id = member_id
        self.topics = list(topics)
        self.fields = fields
        self.epoch = 0
        self.owned: Owned = {}

    def join(self) -> Any:
        self.epoch, self.owned = 0, {}
        return self._send(
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=None if "subscribed_topic_regex" in self.fields else self.topics,
            topic_partitions=[],
            **self.fields,
        )

    def beat(self, **fields: Any) -> Any:
        """One heartbeat; the client then owns what the answer says."""
        return self._send(topic_partitions=self.report(), **fields)

    def report(self) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=topic_id(topic), partitions=sorted(partitions))
            for topic, partitions in sorted(self.owned.items())
            if partitions
        ]

    def hold(self, **fields: Any) -> Any:
        """A heartbeat whose answer the client does not act upon yet."""
        reply = self._clients.heartbeat(self.member_id, self.epoch, **fields)
        self.epoch = reply.member_epoch
        return reply

    def leave(self, epoch: int = -1) -> Any:
        reply = self._clients.heartbeat(self.member_id, epoch, instance_id=self.fields.get("instance_id"))
        self.owned = {}
        return reply

    def _send(self, **fields: Any) -> Any:
        fields.setdefault("instance_id", self.fields.get("instance_id"))
        reply = self._clients.heartbeat(self.member_id, self.epoch, **fields)
        self.epoch = reply.member_epoch
        self.take(reply)
        return reply

    def take(self, reply: Any) -> None:
        """Act upon an answer: give up what is not in it, begin with what is."""
        if reply.assignment is not None:
            self.owned = {
                listed.topic_id.lstrip(b"\0").decode(): set(listed.partitions)
                for listed in reply.assignment.topic_partitions
            }


def code_of(operation: Any) -> int:
    """The code with which an operation is refused."""
    try:
        operation()
    except KafkaError as error:
        return int(error.code)
    return 0
