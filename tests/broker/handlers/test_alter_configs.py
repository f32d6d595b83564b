from __future__ import annotations

from pathlib import Path
from typing import Any

from oncelog.broker.handlers.alter_configs import error_reply, handle
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tests.broker.handlers.config_services import config_services, context_of, over_the_wire

TOPIC, BROKER, LOGGER = 2, 4, 8


def resource(kind: int, name: str, **configs: str | None) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


async def alter(services: Any, version: int, *resources: AlterConfigsResource) -> list[int]:
    response = await handle(AlterConfigsRequest(resources=list(resources)), context_of(services, version))
    return [answer.error_code for answer in over_the_wire(response, version).responses]


async def test_all_settings_are_replaced(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        assert await alter(services, 2, resource(TOPIC, "t", retention_ms="1", segment_ms="2")) == [0]
        assert await alter(services, 0, resource(TOPIC, "t", retention_ms="3")) == [0]
        assert services.metadata.image.topic("t").configs == {"retention.ms": "3"}
        assert await alter(services, 1, resource(BROKER, "1", max_connections="3")) == [0]
        assert await alter(services, 1, resource(TOPIC, "t"), resource(BROKER, "1")) == [0, 0]
        assert services.metadata.image.topic("t").configs == {}
        assert services.metadata.image.broker_configs == {}


async def test_refusals(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        codes = await alter(
            services,
            2,
            resource(TOPIC, "t", foo="1"),
            resource(TOPIC, "nope"),
            resource(BROKER, "1", num_partitions="3"),
            resource(BROKER, "", max_connections=None),
            resource(LOGGER, "1", root="INFO"),
        )
        assert codes == [
            ErrorCode.INVALID_CONFIG,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]


def test_the_error_of_a_whole_request() -> None:
    request = AlterConfigsRequest(resources=[resource(TOPIC, "t")])
    reply = error_reply(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), context_of(None, 2))
    assert [answer.error_code for answer in over_the_wire(reply, 2).responses] == [-1]
