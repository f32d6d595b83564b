from __future__ import annotations

from oncelog.broker.config import BrokerConfig
from oncelog.broker.config.topic_log_config import log_config
from oncelog.broker.log.log_config import LogConfig
from oncelog.protocol.records.batch import TimestampType


def test_defaults_are_those_of_the_log() -> None:
    assert log_config({}, BrokerConfig()) == LogConfig()


def test_overrides_and_broker_settings_arrive() -> None:
    broker = BrokerConfig().with_overrides(
        {"producer.id.expiration.ms": "5", "transaction.partition.verification.enable": "false"},
        {"log.segment.bytes": "2000000"},
    )
    overrides = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
        "min.cleanable.dirty.ratio": "0.1",
        "retention.ms": "-1",
    }
    assert log_config(overrides, broker) == LogConfig(
        segment_bytes=2000000,
        producer_id_expiration_ms=5,
        transaction_verification=False,
        cleanup_compact=True,
        cleanup_delete=False,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        min_cleanable_dirty_ratio=0.1,
        retention_ms=-1,
    )


def test_no_cleanup_at_all() -> None:
    config = log_config({"cleanup.policy": ""}, BrokerConfig())
    assert not config.cleanup_delete
    assert not config.cleanup_compact
