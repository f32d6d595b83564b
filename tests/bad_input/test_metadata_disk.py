"""Row 70 again: a disk too full for the metadata. Clients are told to try again; the log says it in one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as ConfluentNewTopic

from oncelog.broker.metadata.stores.sqlite_database import SqliteDatabase
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages import alter_client_quotas as quotas
from oncelog.protocol.messages import alter_configs, incremental_alter_configs
from oncelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from oncelog.protocol.schema import Message, Struct
from tests.bad_input.conftest import ErrorLog, Neighbour, StartBroker
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import create_topic, create_topics

TOPIC = 2


class FullDisk:
    """Lets the next writes of metadata fail as SQLite does on a full disk; -1 means all of them."""

    def __init__(self) -> None:
        self.failures_left = 0
        self.failed = 0

    def maybe_fail(self) -> None:
        if self.failures_left:
            self.failures_left -= 1
            self.failed += 1
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    disk = FullDisk()
    write = SqliteDatabase._write

    def maybe_write(database: SqliteDatabase, writes: Sequence[Any]) -> int:
        disk.maybe_fail()
        return write(database, writes)

    monkeypatch.setattr(SqliteDatabase, "_write", maybe_write)
    return disk


@pytest.fixture
def broker(start_broker: StartBroker, full_disk: FullDisk, error_log: ErrorLog) -> Iterator[LiveBroker]:
    broker = start_broker()
    yield broker
    if full_disk.failed:
        (line,) = error_log.lines
        assert "cannot be changed for now: metadata store" in line
        assert "the disk is full" in line
        assert "Traceback" not in line
        error_log.lines.clear()


def codes(answer: Any) -> set[int]:
    """All error codes of an answer, wherever they stand."""
    if isinstance(answer, list):
        return set().union(*map(codes, answer))
    if not isinstance(answer, Struct):
        return set()
    found = {answer.error_code} if hasattr(answer, "error_code") else set()
    return found.union(*(codes(getattr(answer, field.name)) for field in answer.fields()))


ALTER_CONFIGS = alter_configs.AlterConfigsResource(
    resource_type=TOPIC,
    resource_name="old",
    configs=[alter_configs.AlterableConfig(name="retention.ms", value="1000")],
)
INCREMENTAL_ALTER_CONFIGS = incremental_alter_configs.AlterConfigsResource(
    resource_type=TOPIC,
    resource_name="old",
    configs=[incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="1000")],
)
ALTER_CLIENT_QUOTAS = quotas.RequestEntryData(
    entity=[quotas.EntityData(entity_type="client-id", entity_name="c")],
    ops=[quotas.OpData(key="producer_byte_rate", value=1000.0)],
)
CREATE_PARTITIONS = CreatePartitionsTopic(name="old", count=2, assignments=None)
UPDATE_FEATURES = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)

REQUESTS: list[tuple[Message, int, ErrorCode]] = [
    (InitProducerIdRequest(transactional_id=None), 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    (FindCoordinatorRequest(key="g"), 3, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    *(
        (request, version, ErrorCode.KAFKA_STORAGE_ERROR)
        for request, version in (
            (create_topics("new"), 7),
            (DeleteTopicsRequest(timeout_ms=5000, topics=[DeleteTopicState(name="old")]), 6),
            (CreatePartitionsRequest(timeout_ms=5000, topics=[CREATE_PARTITIONS]), 3),
            (alter_configs.AlterConfigsRequest(resources=[ALTER_CONFIGS]), 2),
            (incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[INCREMENTAL_ALTER_CONFIGS]), 1),
            (quotas.AlterClientQuotasRequest(entries=[ALTER_CLIENT_QUOTAS]), 1),
            (UpdateFeaturesRequest(feature_updates=[UPDATE_FEATURES]), 2),
        )
    ),
]


@pytest.mark.parametrize(
    ("wish", "version", "code"), REQUESTS, ids=[type(request).__name__ for request, _, _ in REQUESTS]
)
def test_what_needs_the_metadata_may_be_tried_again(
    broker: LiveBroker, full_disk: FullDisk, wish: Message, version: int, code: ErrorCode
) -> None:
    with Neighbour(broker) as neighbour, RawClient(broker.port) as client:
        create_topic(client, "old")
        full_disk.failures_left = -1
        for _ in range(3):
            assert codes(client.call(wish, version)) - {0} == {code}
        neighbour.check()
        full_disk.failures_left = 0
        assert codes(client.call(wish, version)) == {0}


def test_an_unknown_topic_does_not_hide_the_others(broker: LiveBroker, full_disk: FullDisk) -> None:
    with RawClient(broker.port) as client:
        create_topic(client, "old")
        full_disk.failures_left = -1
        names = ["new", "old"]
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        answer = client.call(request, 12)
        assert answer.brokers
        assert {topic.name: topic.error_code for topic in answer.topics} == {
            "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "old": 0,
        }
        full_disk.failures_left = 0
        assert {topic.error_code for topic in client.call(request, 12).topics} == {0}


def test_an_admin_client_says_what_is_wrong(broker: LiveBroker, full_disk: FullDisk) -> None:
    full_disk.failures_left = -1
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 0})
    (future,) = admin.create_topics([ConfluentNewTopic("t", 1, 1)]).values()
    with pytest.raises(KafkaException, match="the disk is full"):
        future.result(30)
