from __future__ import annotations

import pytest

from oncelog.broker.config import BROKER_KEYS, TOPIC_KEYS, BrokerConfig, Setting, no_effect
from oncelog.broker.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)

STATIC = (
    Setting("log.retention.minutes", "600", "test"),
    Setting("ssl.key.password", "hush", "test"),
    Setting("zookeeper.connect", "x", "test"),
    Setting("num.io.threads", "4", "test"),
    Setting("node.id", "3", "test"),
    Setting("advertised.listeners", "PLAINTEXT://kafka:9092", "--advertise"),
)
CONFIG = BrokerConfig(
    STATIC,
    dynamic_default={"log.retention.ms": "9000", "max.connections": "7"},
    dynamic_broker={"log.retention.ms": "5000"},
)


def by_name(entries: object) -> dict[str, ConfigEntry]:
    assert hasattr(entries, "__iter__")
    return {entry.name: entry for entry in entries}


def test_a_broker_lists_every_key_once_and_in_order() -> None:
    names = [entry.name for entry in describe_broker(CONFIG)]
    assert names == sorted(BROKER_KEYS.keys() | no_effect.described() | {setting.name for setting in STATIC})


@pytest.mark.parametrize(
    ("name", "value", "source", "synonyms"),
    [
        (
            "log.retention.ms",
            "5000",
            2,
            [
                ("log.retention.ms", "5000", 2),
                ("log.retention.ms", "9000", 3),
                ("log.retention.minutes", "600", 4),
                ("log.retention.hours", "168", 5),
            ],
        ),
        ("log.retention.minutes", "600", 4, [("log.retention.minutes", "600", 4), ("log.retention.hours", "168", 5)]),
        ("log.retention.hours", "168", 5, [("log.retention.hours", "168", 5)]),
        ("log.roll.ms", None, 5, []),
        ("log.flush.interval.ms", None, 5, []),
        ("max.connections", "7", 3, [("max.connections", "7", 3), ("max.connections", "2147483647", 5)]),
        ("num.io.threads", "4", 4, [("num.io.threads", "4", 4)]),
        ("ssl.protocol", "TLSv1.3", 5, [("ssl.protocol", "TLSv1.3", 5)]),
        ("ssl.keystore.location", None, 5, []),
        ("node.id", "3", 4, [("node.id", "3", 4), ("node.id", "1", 5)]),
        ("broker.id", "3", 5, []),
        ("listeners", "PLAINTEXT://127.0.0.1:9092", 5, [("listeners", "PLAINTEXT://127.0.0.1:9092", 5)]),
        (
            "advertised.listeners",
            "PLAINTEXT://kafka:9092",
            4,
            [("advertised.listeners", "PLAINTEXT://kafka:9092", 4)],
        ),
    ],
)
def test_sources_and_synonyms_of_a_broker(
    name: str, value: str | None, source: int, synonyms: list[tuple[str, str, int]]
) -> None:
    entry = by_name(describe_broker(CONFIG))[name]
    assert (entry.value, entry.source, list(entry.synonyms)) == (value, source, synonyms)
    assert entry.is_default == (source == 5)


def test_secrets_and_strangers_are_never_shown() -> None:
    entries = by_name(describe_broker(CONFIG))
    for name in ("ssl.key.password", "zookeeper.connect"):
        assert entries[name].sensitive
        assert entries[name].value is None
        assert [synonym.value for synonym in entries[name].synonyms] == [None]
    assert "hush" not in repr(entries)


def test_read_only() -> None:
    entries = by_name(describe_broker(CONFIG))
    assert entries["num.partitions"].read_only
    assert not entries["log.retention.ms"].read_only
    assert not entries["num.io.threads"].read_only
    assert entries["zookeeper.connect"].read_only


def test_the_clusters_defaults_alone() -> None:
    entries = by_name(describe_cluster_default(CONFIG))
    assert list(entries) == ["log.retention.ms", "max.connections"]
    assert entries["log.retention.ms"].value == "9000"
    assert entries["log.retention.ms"].synonyms == (("log.retention.ms", "9000", 3),)


def test_a_topic_lists_every_key_with_what_it_inherits() -> None:
    entries = by_name(describe_topic(CONFIG, {"retention.ms": " 1000 ", "preallocate": "TRUE"}))
    assert list(entries) == sorted(TOPIC_KEYS)
    assert entries["retention.ms"].value == "1000"
    assert entries["retention.ms"].source == 1
    assert [tuple(synonym) for synonym in entries["retention.ms"].synonyms][:3] == [
        ("retention.ms", "1000", 1),
        ("log.retention.ms", "5000", 2),
        ("log.retention.ms", "9000", 3),
    ]
    assert entries["preallocate"].value == "true"
    assert entries["segment.bytes"].synonyms == (("log.segment.bytes", "1073741824", 5),)
    assert entries["segment.ms"].value == "604800000"
    assert entries["segment.ms"].synonyms == ()
    assert entries["remote.storage.enable"].synonyms == ()
    assert not any(entry.read_only or entry.sensitive for entry in entries.values())


def test_a_group_inherits_from_the_broker() -> None:
    entries = by_name(describe_group(CONFIG, {"consumer.session.timeout.ms": "50000"}))
    session = entries["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", 8)
    assert session.synonyms == (
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    )
    heartbeat = entries["consumer.heartbeat.interval.ms"]
    assert (heartbeat.value, heartbeat.source) == ("5000", 5)
    assert heartbeat.synonyms == (("group.consumer.heartbeat.interval.ms", "5000", 5),)
