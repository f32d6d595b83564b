from __future__ import annotations

import pytest

from oncelog.broker.log.log_config import DEFAULTS, LogConfig


def test_defaults_are_kafkas() -> None:
    config = LogConfig()
    assert config.segment_bytes == 1_073_741_824
    assert config.max_message_bytes == 1_048_588
    assert config.message_timestamp_after_max_ms == 3_600_000
    assert config.retention_ms == 604_800_000
    assert set(LogConfig.__slots__) == set(DEFAULTS)


def test_it_does_not_change() -> None:
    config = LogConfig(segment_bytes=5)
    with pytest.raises(AttributeError):
        config.segment_bytes = 6
    other = config.replace(segment_ms=7)
    assert (config.segment_ms, other.segment_ms, other.segment_bytes) == (604_800_000, 7, 5)
    assert other == LogConfig(segment_bytes=5, segment_ms=7) != config
    assert repr(other) == "LogConfig(segment_bytes=5, segment_ms=7)"
    with pytest.raises(TypeError, match="segment_size"):
        LogConfig(segment_size=1)
