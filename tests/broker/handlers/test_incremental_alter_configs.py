from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.admin.loggers import logger_levels
from oncelog.broker.handlers.incremental_alter_configs import error_reply, handle
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.handlers.config_services import config_services, context_of, over_the_wire

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def resource(kind: int, name: str, *edits: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in edits],
    )


async def alter(
    services: Any, *resources: AlterConfigsResource, validate_only: bool = False, version: int = 1
) -> list[tuple[int, str | None]]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    response = over_the_wire(await handle(request, context_of(services, version)), version)
    assert [(r.resource_type, r.resource_name) for r in response.responses] == [
        (r.resource_type, r.resource_name) for r in resources
    ]
    return [(r.error_code, r.error_message) for r in response.responses]


async def test_topics_brokers_and_groups_in_one_request(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        outcomes = await alter(
            services,
            resource(TOPIC, "t", ("retention.ms", SET, "1000"), ("cleanup.policy", APPEND, "compact")),
            resource(BROKER, "", ("max.connections", SET, "5")),
            resource(BROKER, "1", ("max.connections", SET, "6"), ("log.cleanup.policy", APPEND, "compact")),
            resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        )
        assert outcomes == [(0, None)] * 4
        image = services.metadata.image
        assert image.topic("t").configs == {"retention.ms": "1000", "cleanup.policy": "delete,compact"}
        assert image.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
        assert services.config.int("max.connections") == 6
        assert services.config.list("log.cleanup.policy") == ["delete", "compact"]

        edits = (("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"), ("foo", DELETE, None))
        assert await alter(services, resource(TOPIC, "t", *edits), version=0) == [(0, None)]
        assert services.metadata.image.topic("t").configs == {"cleanup.policy": "compact"}


async def test_only_checked(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        change = resource(TOPIC, "t", ("retention.ms", SET, "1000"))
        assert await alter(services, change, validate_only=True) == [(0, None)]
        assert services.metadata.image.topic("t").configs == {}


@pytest.mark.parametrize(
    ("kind", "name", "edits", "code", "line"),
    [
        (TOPIC, "t", [("foo", SET, "1")], 40, "Unknown topic config name: foo"),
        (TOPIC, "t", [("retention.ms", SET, "x")], 40, "Not a number of type LONG; it must be a whole number"),
        (TOPIC, "t", [("retention.ms", APPEND, "5")], 40, "retention.ms"),
        (TOPIC, "t", [("retention.ms", SET, None)], 42, "retention.ms"),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], 42, "duplicate"),
        (TOPIC, "t", [("retention.ms", 9, "1")], 42, "9"),
        (TOPIC, "nope", [("retention.ms", SET, "5")], 3, "nope"),
        (TOPIC, "a/b", [("retention.ms", SET, "5")], 17, "a/b"),
        (TOPIC, "", [("retention.ms", SET, "5")], 42, ""),
        (BROKER, "1", [("num.partitions", SET, "5")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "", [("log.segment.bytes", SET, "10")], 42, "at least 1048576"),
        (BROKER, "7", [("max.connections", SET, "5")], 42, "7"),
        (BROKER, "x", [("max.connections", SET, "5")], 42, "x"),
        (
            GROUP,
            "g",
            [("consumer.session.timeout.ms", SET, "5")],
            40,
            "must be greater than or equal to group.consumer.min",
        ),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "5")], 42, ""),
        (METRICS, "m", [("interval.ms", SET, "5")], 42, "interval must be between 100 and 3600000 (1 hour)"),
        (METRICS, "m", [("interval.ms", SET, "3600001")], 42, "Invalid value 3600001 for interval.ms"),
        (METRICS, "m", [("interval.ms", SET, "soon")], 40, "Not a number of type INT"),
        (METRICS, "m", [("metrics", APPEND, "a.")], 40, "Can't APPEND to key metrics because its type is not LIST."),
        (METRICS, "m", [("metrics", SET, "a.,,b.")], 40, "Configuration 'metrics' values must not be empty."),
        (
            METRICS,
            "m",
            [("match", SET, "client_id")],
            40,
            "Illegal client matching pattern: client_id; it must be name=",
        ),
        (
            METRICS,
            "m",
            [("match", SET, "client_id=a=b")],
            40,
            "Illegal client matching pattern: client_id=a=b; it must",
        ),
        (METRICS, "m", [("match", SET, "client_id=")], 40, "Illegal client matching pattern: client_id="),
        (METRICS, "m", [("match", SET, "host=a")], 40, "client_source_address, client_source_port"),
        (METRICS, "m", [("match", SET, "client_id=[")], 40, "is not a valid regular expression"),
        (METRICS, "m", [("match", SET, f"client_id={'x' * 503}")], 40, "not be longer than 512 characters"),
        (METRICS, "m", [("nope", SET, "1"), ("match", SET, "[")], 42, "Unknown client metrics configuration: nope"),
        (METRICS, "", [("interval.ms", SET, "500")], 42, "Subscription name can't be empty"),
        (99, "m", [("interval.ms", SET, "5")], 42, "99"),
        (LOGGER, "1", [("oncelog.nowhere", SET, "INFO")], 40, "there is no logger oncelog.nowhere"),
        (LOGGER, "1", [("root", SET, "LOUD")], 40, "one of TRACE, DEBUG, INFO"),
        (LOGGER, "1", [("root", DELETE, None)], 42, "root"),
        (LOGGER, "1", [("root", APPEND, "INFO")], 42, "only be set or deleted"),
        (LOGGER, "2", [("root", SET, "INFO")], 42, "Unexpected broker id, expected 1 but received 2"),
        (LOGGER, "", [("root", SET, "INFO")], 42, "must be an integer"),
    ],
)
async def test_refusals(
    tmp_path: Path, kind: int, name: str, edits: list[tuple[str, int, str | None]], code: int, line: str
) -> None:
    async with config_services(tmp_path) as services:
        revision, levels = services.metadata.image.revision, logger_levels()
        ((refused, message),) = await alter(services, resource(kind, name, *edits))
        assert refused == code
        assert line in (message or "")
        assert services.metadata.image.revision == revision
        assert logger_levels() == levels


async def test_one_refusal_leaves_the_others(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        outcomes = await alter(
            services,
            resource(TOPIC, "t", ("foo", SET, "1")),
            resource(BROKER, "", ("max.connections", SET, "5")),
        )
        assert [code for code, _ in outcomes] == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
        assert services.config.int("max.connections") == 5


async def test_a_resource_may_appear_once(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        for kind, name in ((TOPIC, "t"), (LOGGER, "1")):
            outcomes = await alter(services, resource(kind, name), resource(kind, name))
            assert [code for code, _ in outcomes] == [ErrorCode.INVALID_REQUEST] * 2


async def test_the_level_of_a_logger(tmp_path: Path) -> None:
    name = "oncelog.broker.metadata.runtime"
    async with config_services(tmp_path) as services:
        before = logger_levels()
        assert await alter(services, resource(LOGGER, "1", (name, SET, "fatal")), validate_only=True) == [(0, None)]
        assert logger_levels() == before
        assert await alter(services, resource(LOGGER, "1", (name, SET, "fatal"))) == [(0, None)]
        assert logger_levels()[name] == "FATAL"
        assert await alter(services, resource(LOGGER, "1", (name, DELETE, None))) == [(0, None)]
        assert logger_levels() == before


async def test_nothing_asked_nothing_answered(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        assert await alter(services) == []
        assert await alter(services, resource(TOPIC, "t")) == [(0, None)]


def test_the_error_of_a_whole_request() -> None:
    request = IncrementalAlterConfigsRequest(resources=[resource(TOPIC, "t")])
    reply = error_reply(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), context_of(None, 1))
    assert [r.error_code for r in over_the_wire(reply, 1).responses] == [-1]
