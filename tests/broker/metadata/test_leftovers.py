"""What a crash leaves of a topic that was being deleted: its directories, and offsets that groups have in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.broker.metadata.keys import topic_key
from oncelog.broker.metadata.store import Delete
from oncelog.broker.metadata.stores.sqlite import SqliteStore
from oncelog.testing import Broker


def test_nothing_of_a_deleted_topic_is_in_the_way_of_a_new_one(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        create(broker, "gone", "kept")
        produce(broker, "gone")
        consumer = consumer_of(broker)
        commits = [TopicPartition(topic, 0, 1) for topic in ("gone", "kept")]
        consumer.commit(offsets=commits, asynchronous=False)
        consumer.close()
    asyncio.run(delete_from_metadata(tmp_path, "gone"))
    with Broker(data_dir=tmp_path) as broker:
        assert len(list(tmp_path.glob("gone-0.*-stray"))) == 1
        create(broker, "gone")
        assert produce(broker, "gone") == 0
        consumer = consumer_of(broker)
        committed = consumer.committed([TopicPartition("gone", 0), TopicPartition("kept", 0)], timeout=60)
        assert [place.offset for place in committed] == [-1001, 1]
        consumer.close()


async def delete_from_metadata(directory: Path, topic: str) -> None:
    """As far as a broker has come that is killed as soon as the deletion is decided."""
    store = await SqliteStore.open(directory / "metadata.sqlite")
    await store.transact([], [Delete(topic_key(topic))])
    await store.close()


def create(broker: Broker, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result()


def produce(broker: Broker, topic: str) -> int:
    offsets = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, message: offsets.append(message.offset()))
    assert producer.flush(60) == 0
    return offsets[0]


def consumer_of(broker: Broker) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "log_level": 0})
