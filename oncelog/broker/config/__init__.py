"""The broker's settings under Kafka's own names: tables of keys, reading, checking and describing them."""

from __future__ import annotations

from oncelog.broker.config.broker_config import BROKER_KEYS, BrokerConfig, Setting
from oncelog.broker.config.topic_keys import TOPIC_KEYS
from oncelog.broker.config.values import ConfigError

__all__ = ["BROKER_KEYS", "TOPIC_KEYS", "BrokerConfig", "ConfigError", "Setting"]
