"""Our tables of settings against what an Apache Kafka 4.3 tells in DescribeConfigs, key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.reference.kafka import NODE_ID
from oncelog.broker.config import BROKER_KEYS, TOPIC_KEYS, BrokerConfig, no_effect, values
from oncelog.broker.config.describe import ConfigEntry, describe_broker, describe_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.reference.kafka import ApacheKafka

# kafka-python loads its schemas by functions that Python 3.11 calls deprecated.
pytestmark = [pytest.mark.java, pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")]

OVERRIDES = {"retention.ms": " 1000 ", "cleanup.policy": "compact,delete", "preallocate": "TRUE"}

OTHER_DEFAULTS = {
    "broker.id": (None, "-1", "there is no id that is given out"),
    "node.id": ("1", None, "Kafka demands one"),
    "listeners": ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://:9092", "open to other machines only when told to"),
    "controller.listener.names": ("", None, "Kafka demands one"),
    "log.dir": ("data", "/tmp/kafka-logs", "data is not for /tmp"),
    "offsets.topic.replication.factor": ("1", "3", "a broker alone must work"),
    "transaction.state.log.replication.factor": ("1", "3", "a broker alone must work"),
    "transaction.state.log.min.isr": ("1", "2", "a broker alone must work"),
    "group.coordinator.rebalance.protocols": (
        "classic,consumer",
        "classic,consumer,streams",
        "groups of Streams' own protocol are not served",
    ),
}
"""Ours, Kafka's, and why."""

FIXED_HERE = {"listeners", "listener.security.protocol.map"}
"""May change in a running Kafka, but not here."""

NOT_TOLD_BY_KAFKA = {
    "log.flush.on.ack",
    "log.initial.task.delay.ms",
    "producer.id.expiration.check.interval.ms",
}
"""The first is ours alone, the others count as internal there."""

# With ELR, Kafka 4.3 stores min.insync.replicas for the cluster when it is formatted.
STORED_BY_KAFKA = {"min.insync.replicas"}

TYPES = {
    "BOOLEAN": values.BOOLEAN,
    "STRING": values.STRING,
    "INT": values.INT,
    "SHORT": values.SHORT,
    "LONG": values.LONG,
    "DOUBLE": values.DOUBLE,
    "LIST": values.LIST,
    "CLASS": values.CLASS,
    "PASSWORD": values.PASSWORD,
}
SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": 1,
    "DYNAMIC_BROKER_CONFIG": 2,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": 3,
    "STATIC_BROKER_CONFIG": 4,
    "DEFAULT_CONFIG": 5,
}


@pytest.fixture(scope="module")
def described(apache_kafka: ApacheKafka) -> Iterator[dict[str, dict[str, Any]]]:
    """What Kafka tells of itself, of a topic without settings and of one with."""
    # confluent-kafka does not tell the types.
    from kafka.admin import ConfigResource, KafkaAdminClient

    servers = apache_kafka.bootstrap_servers
    topics = {"settings-plain": {}, "settings-own": OVERRIDES}
    confluent = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    new = [NewTopic(name, 1, 1, config=dict(config)) for name, config in topics.items()]
    for future in confluent.create_topics(new).values():
        future.result()
    admin = KafkaAdminClient(bootstrap_servers=servers)
    resources = [ConfigResource("TOPIC", name) for name in topics] + [ConfigResource("BROKER", str(NODE_ID))]
    try:
        answer = admin.describe_configs(resources, include_synonyms=True, config_filter="all")
        yield {**answer["topic"], "broker": answer["broker"][str(NODE_ID)]}
    finally:
        admin.close()


@pytest.mark.parametrize(("topic", "overrides"), [("settings-plain", {}), ("settings-own", OVERRIDES)])
def test_topics(described: dict[str, dict[str, Any]], topic: str, overrides: dict[str, str]) -> None:
    ours = {entry.name: entry for entry in describe_topic(BrokerConfig(), overrides)}
    theirs = described[topic]
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - STORED_BY_KAFKA:
        assert _as_told(ours[name]) == _as_told_by_kafka(theirs[name]), name
    for name in STORED_BY_KAFKA:
        assert ours[name].value == theirs[name]["value"]


def test_every_setting_of_a_broker_is_known_with_its_type(described: dict[str, dict[str, Any]]) -> None:
    for name, told in described["broker"].items():
        key = BROKER_KEYS.get(name)
        config_type = key.type if key else no_effect.type_of(name)
        if no_effect.is_kraft(name):
            continue
        assert config_type == TYPES[told["config_type"]], name
    assert BROKER_KEYS.keys() - described["broker"].keys() == NOT_TOLD_BY_KAFKA


def test_what_may_change_while_a_broker_runs(described: dict[str, dict[str, Any]]) -> None:
    for name, told in described["broker"].items():
        key = BROKER_KEYS.get(name)
        dynamic = key.dynamic if key else no_effect.is_dynamic(name)
        assert dynamic == (not told["read_only"] and name not in FIXED_HERE), name


def test_defaults_of_a_broker(described: dict[str, dict[str, Any]]) -> None:
    different = {}
    for name in BROKER_KEYS.keys() - NOT_TOLD_BY_KAFKA:
        theirs = _default_of(name, described["broker"][name])
        ours = BROKER_KEYS[name].default
        if ours != theirs:
            different[name] = (ours, theirs)
    assert different == {name: (ours, theirs) for name, (ours, theirs, _) in OTHER_DEFAULTS.items()}


def test_settings_of_tls_and_sasl_are_told_as_kafka_tells_them(described: dict[str, dict[str, Any]]) -> None:
    ours = {entry.name: entry for entry in describe_broker(BrokerConfig()) if entry.name.startswith(("ssl.", "sasl."))}
    theirs = {name: told for name, told in described["broker"].items() if name.startswith(("ssl.", "sasl."))}
    assert ours.keys() == theirs.keys()
    for name, entry in ours.items():
        assert _as_told(entry) == _as_told_by_kafka(theirs[name]), name
        assert entry.documentation == f"{name} has no effect in this version."


def test_topic_defaults_are_kafkas(described: dict[str, dict[str, Any]]) -> None:
    assert {name: key.default for name, key in TOPIC_KEYS.items()} == {
        name: told["value"] for name, told in described["settings-plain"].items()
    }


def _as_told(entry: ConfigEntry) -> tuple[object, ...]:
    synonyms = [tuple(synonym) for synonym in entry.synonyms]
    return entry.value, entry.type, entry.source, entry.read_only, entry.sensitive, synonyms


def _as_told_by_kafka(told: dict[str, Any]) -> tuple[object, ...]:
    return (
        told["value"],
        TYPES[told["config_type"]],
        SOURCES[told["config_source"]],
        told["read_only"],
        told["is_sensitive"],
        [(synonym["name"], synonym["value"], SOURCES[synonym["source"]]) for synonym in told["synonyms"]],
    )


def _default_of(name: str, told: dict[str, Any]) -> str | None:
    for synonym in told["synonyms"]:
        if synonym["name"] == name and synonym["source"] == "DEFAULT_CONFIG":
            default: str | None = synonym["value"]
            return default
    return None
