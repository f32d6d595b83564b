"""What a plan that alters settings must know of the keys of topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from oncelog.broker.config.broker_config import BROKER_KEYS, BrokerConfig
from oncelog.broker.config.checks import check_dynamic_configs, check_group_configs, check_topic_configs
from oncelog.broker.config.client_metrics_keys import CLIENT_METRICS_KEYS, check_client_metrics
from oncelog.broker.config.group_keys import GROUP_KEYS, broker_synonym
from oncelog.broker.config.topic_keys import TOPIC_KEYS
from oncelog.broker.config.values import LIST, format_value

if TYPE_CHECKING:
    from oncelog.broker.config.keys import ConfigKey


class Schema:
    """The keys of one type of resource, their check and their inherited values."""

    def __init__(
        self,
        keys: Mapping[str, ConfigKey],
        config: BrokerConfig,
        check: Callable[[Mapping[str, str], BrokerConfig], None],
        inherited: Callable[[str], str | None],
    ) -> None:
        self._keys = keys
        self._config = config
        self._check = check
        self._inherited = inherited

    def check(self, configs: Mapping[str, str]) -> None:
        """Raises KafkaError that says in one line why the settings are refused."""
        self._check(configs, self._config)

    def is_list(self, key: str) -> bool:
        return key in self._keys and self._keys[key].type == LIST

    def default(self, key: str) -> str | None:
        """The value in effect where the resource has none of its own."""
        return self._inherited(key) if key in self._keys else None


def topic_schema(config: BrokerConfig) -> Schema:
    return Schema(
        TOPIC_KEYS,
        config,
        check_topic_configs,
        lambda key: format_value(TOPIC_KEYS[key].type, config.topic_value(key, {})),
    )


def broker_schema(config: BrokerConfig) -> Schema:
    return Schema(BROKER_KEYS, config, check_dynamic_configs, config.text_of)


def group_schema(config: BrokerConfig) -> Schema:
    return Schema(GROUP_KEYS, config, check_group_configs, lambda key: config.text_of(broker_synonym(key)))


class _SchemaWithoutLists(Schema):
    """Kafka appends only to lists of topics, brokers and groups."""

    def is_list(self, key: str) -> bool:
        return False


def client_metrics_schema(config: BrokerConfig) -> Schema:
    return _SchemaWithoutLists(
        CLIENT_METRICS_KEYS,
        config,
        lambda configs, _: check_client_metrics(configs),
        lambda key: CLIENT_METRICS_KEYS[key].default,
    )
