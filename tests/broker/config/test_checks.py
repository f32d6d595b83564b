from __future__ import annotations

import pytest

from oncelog.broker.config import BrokerConfig, Setting
from oncelog.broker.config.checks import (
    check_dynamic_configs,
    check_group_configs,
    check_topic_configs,
    connection_overrides,
)
from oncelog.protocol.errors import ErrorCode, KafkaError

BROKER = BrokerConfig()


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"cleanup.policy": " delete , compact "},
        {"cleanup.policy": ""},
        {"preallocate": "TRUE"},
        {"compression.gzip.level": "-1"},
        {"max.message.bytes": "+5"},
        {"leader.replication.throttled.replicas": "0:1,1:2"},
        {"local.retention.ms": "999999999999"},
        {"remote.log.copy.disable": "true"},
    ],
)
def test_good_topic_settings(overrides: dict[str, str]) -> None:
    check_topic_configs(overrides, BROKER)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ({"retention.mss": "1"}, 'Unknown topic config name: retention.mss (did you mean "retention.ms"?)'),
        ({"foo": "1"}, "Unknown topic config name: foo"),
        (
            {"retention.ms": "abc"},
            "Invalid value abc for configuration retention.ms: Not a number of type LONG; it must be a whole number of "
            "64 bits, at least -1",
        ),
        (
            {"retention.ms": "-2"},
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            {"segment.bytes": "100"},
            "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            {"cleanup.policy": "Delete"},
            "Invalid value Delete for configuration cleanup.policy; it must be one of compact, delete",
        ),
        ({"compression.gzip.level": "0"}, "Value must be at least 1; it must be between 1 and 9, or -1"),
        ({"message.timestamp.type": "logappendtime"}, "must be one of CreateTime, LogAppendTime"),
        ({"remote.storage.enable": "true"}, "there is no tiered storage"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms (10) must not be above max.compaction.lag.ms (5)",
        ),
    ],
)
def test_bad_topic_settings(overrides: dict[str, str], line: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topic_configs(overrides, BROKER)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert line in caught.value.message


def test_a_topic_setting_may_contradict_the_brokers() -> None:
    broker = BROKER.with_overrides({"log.cleaner.max.compaction.lag.ms": "5"}, {})
    with pytest.raises(KafkaError, match=r"\(10\) must not be above max.compaction.lag.ms \(5\)"):
        check_topic_configs({"min.compaction.lag.ms": "10"}, broker)


@pytest.mark.parametrize(
    "overrides",
    [
        {"log.retention.ms": "5000"},
        {"num.io.threads": "6"},
        {"leader.replication.throttled.rate": "1000"},
        {"listener.name.external.ssl.keystore.location": "/x"},
        {"log.cleanup.policy": "compact"},
    ],
)
def test_good_dynamic_settings(overrides: dict[str, str]) -> None:
    check_dynamic_configs(overrides, BROKER)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ({"node.id": "3"}, "Cannot update these configs dynamically: [node.id]"),
        ({"num.partitions": "3"}, "Cannot update these configs dynamically: [num.partitions]"),
        ({"listeners": "PLAINTEXT://:1"}, "Cannot update these configs dynamically: [listeners]"),
        ({"process.roles": "broker"}, "Cannot update these configs dynamically: [process.roles]"),
        ({"log.retention.mss": "3"}, 'did you mean "log.retention.ms"?'),
        ({"log.segment.bytes": "10"}, "must be at least 1048576"),
        ({"log.retention.ms": "0"}, "0 must be at least 1, or -1 for no limit"),
        ({"ssl.keystore.location": "/x"}, "as listener.name.<listener>.ssl.keystore.location"),
        (
            {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"},
            "log.cleaner.min.compaction.lag.ms (10) must not be above",
        ),
    ],
)
def test_bad_dynamic_settings(overrides: dict[str, str], line: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_dynamic_configs(overrides, BROKER)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert line in caught.value.message


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            {"consumer.session.timeout.ms": "5"},
            "must be greater than or equal to group.consumer.min.session.timeout.ms; 5 is below 45000",
        ),
        (
            {"consumer.session.timeout.ms": "99999999"},
            "must be less than or equal to group.consumer.max.session.timeout.ms; 99999999 is above 60000",
        ),
        ({"consumer.session.timeout.ms": "a"}, "Not a number of type INT; it must be a whole number"),
        ({"consumer.session.timeout": "5"}, 'did you mean "consumer.session.timeout.ms"?'),
    ],
)
def test_bad_group_settings(overrides: dict[str, str], line: str) -> None:
    check_group_configs({"consumer.session.timeout.ms": "50000"}, BROKER)
    with pytest.raises(KafkaError) as caught:
        check_group_configs(overrides, BROKER)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert line in caught.value.message


def test_connection_overrides() -> None:
    setting = Setting("max.connections.per.ip.overrides", " localhost:5, ::1:7 ", "test")
    assert connection_overrides(BrokerConfig([setting])) == {"localhost": 5, "::1": 7}
    assert connection_overrides(BROKER) == {}
