"""The topics of consumer groups in the cluster's metadata, and the hash by which a group notices their changes.

Kafka's hash is another one, over the same facts. It is only ever compared with an earlier one of the same broker,
so a group that moves between the two makes one assignment more, which moves no partition.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.group.assignors import NO_RACKS, AssignableTopic

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage, TopicImage

NO_TOPICS_HASH = 0

_HASH_SIZE_BYTES = 8
_HASH = struct.Struct(">q")


class TopicMetadata:
    """The metadata image of the moment, with the hashes of its topics, which are made when first asked for."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._hashes: dict[str, tuple[TopicImage, bytes]] = {}

    @property
    def image(self) -> MetadataImage:
        return self._image()

    def ids(self, names: Iterable[str]) -> frozenset[bytes]:
        """Of the topics that exist."""
        topics = self.image.topics
        return frozenset(topics[name].id for name in names if name in topics)

    def name(self, topic_id: bytes) -> str | None:
        return self.image.topic_names.get(topic_id)

    def assignable(self, topic_id: bytes, *, with_racks: bool) -> AssignableTopic:
        topic = self.image.topic_by_id(topic_id)
        assert topic is not None
        brokers = self.image.brokers
        racks = NO_RACKS
        if with_racks and any(broker.rack is not None for broker in brokers.values()):
            racks = tuple(
                frozenset(
                    rack
                    for replica in partition.replicas
                    if replica in brokers and (rack := brokers[replica].rack) is not None
                )
                for partition in topic.partitions
            )
        return AssignableTopic(len(topic.partitions), racks)

    def hash_of(self, names: Iterable[str]) -> int:
        """Changes when a topic comes, goes, grows, or moves to other brokers."""
        from hashlib import blake2b

        topics = self.image.topics
        hashes = [self._hash_of_topic(topics[name]) for name in sorted(names) if name in topics]
        if not hashes:
            return NO_TOPICS_HASH
        value: int = _HASH.unpack(blake2b(b"".join(hashes), digest_size=_HASH_SIZE_BYTES).digest())[0]
        return value

    def _hash_of_topic(self, topic: TopicImage) -> bytes:
        from hashlib import blake2b

        known = self._hashes.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        replicas = [partition.replicas for partition in topic.partitions]
        facts = b"\0".join((topic.id, topic.name.encode(), repr(replicas).encode()))
        digest = blake2b(facts, digest_size=_HASH_SIZE_BYTES).digest()
        self._hashes[topic.name] = (topic, digest)
        return digest
