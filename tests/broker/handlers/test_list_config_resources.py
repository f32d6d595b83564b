from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.admin.configs import alter_configs
from oncelog.broker.handlers.list_config_resources import handle
from oncelog.broker.metadata.plans.configs import ConfigChange, ConfigEdit
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.handlers.config_services import config_services, context_of, over_the_wire

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def names(services: Any, *types: int, version: int = 1) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    response = over_the_wire(handle(request, context_of(services, version)), version)
    return [(resource.resource_type, resource.resource_name) for resource in response.config_resources]


async def test_resources(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        changes = [
            ConfigChange(GROUP, "g", [ConfigEdit("consumer.session.timeout.ms", 0, "50000")]),
            ConfigChange(METRICS, "m", [ConfigEdit("metrics", 0, "*")]),
        ]
        await alter_configs(services, changes, validate_only=False)
        assert names(services) == [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")]
        assert names(services, GROUP, TOPIC) == [(GROUP, "g"), (TOPIC, "t")]
        assert names(services, METRICS) == [(METRICS, "m")]
        assert names(services, version=0) == [(METRICS, "m")]
        gone = ConfigChange(METRICS, "m", [ConfigEdit("metrics", 1)])
        await alter_configs(services, [gone], validate_only=False)
        assert names(services, METRICS) == []


async def test_an_unknown_type(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        with pytest.raises(KafkaError) as caught:
            names(services, TOPIC, 99)
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
