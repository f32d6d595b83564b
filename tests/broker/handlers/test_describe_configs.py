from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.admin.configs import alter_configs
from oncelog.broker.config import BROKER_KEYS, TOPIC_KEYS, no_effect
from oncelog.broker.handlers.describe_configs import error_reply, handle
from oncelog.broker.metadata.plans.configs import ConfigChange, ConfigEdit
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from tests.broker.handlers.config_services import config_services, context_of, over_the_wire

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


async def describe(
    services: Any, kind: int, name: str, *, version: int = 4, keys: list[str] | None = None, **options: bool
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    response = await handle(DescribeConfigsRequest(resources=[resource], **options), context_of(services, version))
    (result,) = over_the_wire(response, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_everything_is_listed(tmp_path: Path, version: int) -> None:
    async with config_services(tmp_path) as services:
        topic = await describe(services, TOPIC, "t", version=version)
        assert [entry.name for entry in topic.configs] == sorted(TOPIC_KEYS)
        broker = await describe(services, BROKER, "1", version=version)
        assert {entry.name for entry in broker.configs} == BROKER_KEYS.keys() | no_effect.described()
        assert all(not entry.synonyms for entry in broker.configs)
        secret = next(entry for entry in broker.configs if entry.name == "ssl.key.password")
        assert (secret.is_sensitive, secret.value) == (True, None)


async def test_sources_synonyms_types_and_documentation(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        changes = [
            ConfigChange(TOPIC, "t", [ConfigEdit("retention.ms", 0, "1000")]),
            ConfigChange(BROKER, "", [ConfigEdit("log.retention.ms", 0, "2000")]),
            ConfigChange(GROUP, "g", [ConfigEdit("consumer.session.timeout.ms", 0, "50000")]),
        ]
        for result in await alter_configs(services, changes, validate_only=False):
            assert result.outcome.code == ErrorCode.NONE
        told = await describe(
            services, TOPIC, "t", keys=["retention.ms"], include_synonyms=True, include_documentation=True
        )
        (entry,) = told.configs
        assert (entry.value, entry.config_source, entry.config_type) == ("1000", 1, 5)
        assert [(synonym.name, synonym.source) for synonym in entry.synonyms] == [
            ("retention.ms", 1),
            ("log.retention.ms", 3),
            ("log.retention.hours", 5),
        ]
        assert entry.documentation == TOPIC_KEYS["retention.ms"].doc
        (default,) = (await describe(services, BROKER, "")).configs
        assert (default.name, default.value, default.config_source) == ("log.retention.ms", "2000", 3)
        group = await describe(services, GROUP, "g", keys=["consumer.session.timeout.ms"])
        assert [(entry.value, entry.config_source) for entry in group.configs] == [("50000", 8)]
        assert group.configs[0].documentation is None


async def test_client_metrics(tmp_path: Path) -> None:
    """A subscription that nobody made is told with the defaults, as by Kafka."""
    async with config_services(tmp_path) as services:
        told = (await describe(services, METRICS, "m")).configs
        assert [(entry.name, entry.value, entry.config_source, entry.config_type) for entry in told] == [
            ("interval.ms", "300000", 5, 3),
            ("match", "", 5, 7),
            ("metrics", "", 5, 7),
        ]
        edits = [
            ConfigEdit("interval.ms", 0, " 1000 "),
            ConfigEdit("match", 0, "client_id=a.*, client_software_name=b"),
        ]
        await alter_configs(services, [ConfigChange(METRICS, "m", edits)], validate_only=False)
        told = (await describe(services, METRICS, "m", include_synonyms=True)).configs
        assert [(entry.value, entry.config_source) for entry in told] == [
            ("1000", 7),
            ("client_id=a.*,client_software_name=b", 7),
            ("", 5),
        ]
        assert [[synonym.source for synonym in entry.synonyms] for entry in told] == [[7], [7], []]


async def test_loggers_and_unknown_names(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        loggers = {entry.name: entry for entry in (await describe(services, LOGGER, "1")).configs}
        assert loggers["root"].config_source == 6
        assert loggers["root"].value in ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
        assert len((await describe(services, TOPIC, "t", keys=[])).configs) == len(TOPIC_KEYS)
        assert (await describe(services, TOPIC, "t", keys=["foo"])).configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_refusals(tmp_path: Path, kind: int, name: str, code: ErrorCode) -> None:
    async with config_services(tmp_path) as services:
        result = await describe(services, kind, name)
        assert result.error_code == code
        assert result.error_message
        assert result.configs == []


async def test_an_unknown_kind_of_resource_is_refused_with_the_whole_request(tmp_path: Path) -> None:
    async with config_services(tmp_path) as services:
        with pytest.raises(KafkaError, match="unknown resource type 99") as raised:
            await describe(services, 99, "x")
        assert raised.value.code == ErrorCode.INVALID_REQUEST


def test_the_error_of_a_whole_request() -> None:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name="t")])
    reply = error_reply(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), context_of(None, 4))
    assert [result.error_code for result in over_the_wire(reply, 4).results] == [-1]
