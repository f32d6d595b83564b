"""Changes to the settings of topics, brokers, groups, client metrics and loggers, for the two altering APIs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from oncelog.broker.admin.loggers import check_logger_level, check_logger_reset, set_logger_level
from oncelog.broker.config.schemas import broker_schema, client_metrics_schema, group_schema, topic_schema
from oncelog.broker.metadata.plans.configs import (
    ConfigChange,
    ConfigOperation,
    ConfigResult,
    ResourceType,
    plan_config_changes,
)
from oncelog.broker.metadata.plans.plan import OK, Outcome
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.requests.services import Services

R = TypeVar("R")

BROKER_LOGGER: Final = 8


async def alter_configs(
    services: Services, changes: Sequence[ConfigChange], *, validate_only: bool
) -> list[ConfigResult]:
    """The outcome of each change, in the order of the request."""
    repeated = {
        resource for resource, count in Counter((change.type, change.name) for change in changes).items() if count > 1
    }
    loggers = {
        index: _alter_loggers(services, change, repeated, validate_only)
        for index, change in enumerate(changes)
        if change.type == BROKER_LOGGER and not change.replace_all
    }
    config = services.config
    schemas = {
        ResourceType.TOPIC: topic_schema(config),
        ResourceType.BROKER: broker_schema(config),
        ResourceType.GROUP: group_schema(config),
        ResourceType.CLIENT_METRICS: client_metrics_schema(config),
    }
    stored = [change for index, change in enumerate(changes) if index not in loggers]
    results = iter(
        await services.metadata.change(
            lambda image: plan_config_changes(
                image, stored, schemas=schemas, broker_id=services.broker_id, validate_only=validate_only
            )
        )
    )
    return [loggers[index] if index in loggers else next(results) for index in range(len(changes))]


def refused_changes(resources: Iterable[tuple[int, str]], error: KafkaError) -> list[ConfigResult]:
    """The same refusal for each resource, given by its type and name."""
    return [ConfigResult(*resource, Outcome.refused(error)) for resource in resources]


def resource_responses(response: Callable[..., R], results: Iterable[ConfigResult]) -> list[R]:
    """Results as the two APIs answer them, each with a class of its own and the same fields."""
    return [
        response(
            error_code=result.outcome.code,
            error_message=result.outcome.message,
            resource_type=result.type,
            resource_name=result.name,
        )
        for result in results
    ]


def broker_id_of(name: str) -> int:
    """The broker that a resource name means."""
    if not name.isascii() or not name.isdigit():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    return int(name)


def check_this_broker(name: str, services: Services, or_else: str = "") -> None:
    """Raises unless a resource name means this broker: only a broker itself knows its settings."""
    if broker_id_of(name) != services.broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {services.broker_id}{or_else} but received {name}",
        )


def _alter_loggers(
    services: Services, change: ConfigChange, repeated: set[tuple[int, str]], validate_only: bool
) -> ConfigResult:
    try:
        if (change.type, change.name) in repeated:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a resource may appear only once in a request")
        check_this_broker(change.name, services)
        levels: dict[str, str | None] = {}
        for edit in change.edits:
            if edit.key in levels:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{edit.key} appears twice")
            levels[edit.key] = _checked_level(edit.key, edit.operation, edit.value)
    except KafkaError as error:
        return ConfigResult(change.type, change.name, Outcome.refused(error))
    if not validate_only:
        for name, level in levels.items():
            set_logger_level(name, level)
    return ConfigResult(change.type, change.name, OK)


def _checked_level(name: str, operation: int, level: str | None) -> str | None:
    if operation == ConfigOperation.DELETE:
        check_logger_reset(name)
        return None
    if operation != ConfigOperation.SET or level is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the level of {name} can only be set or deleted")
    check_logger_level(name, level)
    return level
