from __future__ import annotations

import pytest

from oncelog.broker.config import BrokerConfig
from oncelog.broker.config.topic_log_config import log_config
from oncelog.broker.log.log_config import LogConfig
from oncelog.protocol.records.batch import TimestampType
from oncelog.protocol.records.compression import Compression


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


@pytest.mark.parametrize(
    ("settings", "codec", "level"),
    [
        ({"compression.type": "producer", "compression.gzip.level": "5"}, None, None),
        ({"compression.type": "uncompressed"}, Compression.NONE, None),
        ({"compression.type": "snappy"}, Compression.SNAPPY, None),
        ({"compression.type": "gzip"}, Compression.GZIP, -1),
        ({"compression.type": "gzip", "compression.gzip.level": "5"}, Compression.GZIP, 5),
        ({"compression.type": "lz4"}, Compression.LZ4, 9),
        ({"compression.type": "zstd", "compression.zstd.level": "-7"}, Compression.ZSTD, -7),
    ],
)
def test_compression(settings: dict[str, str], codec: Compression | None, level: int | None) -> None:
    by_topic = log_config(settings, BrokerConfig())
    by_broker = log_config({}, BrokerConfig().with_overrides({}, settings))
    for config in (by_topic, by_broker):
        assert (config.compression, config.compression_level) == (codec, level)
