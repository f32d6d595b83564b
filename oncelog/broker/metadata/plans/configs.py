"""Alters dynamic configs of topics, brokers, groups and client metrics: by edits (KIP-339), or replaces all."""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.metadata.keys import (
    TopicRecord,
    broker_configs_key,
    client_metrics_key,
    encode_configs,
    encode_topic,
    group_configs_key,
    topic_key,
)
from oncelog.broker.metadata.plans.plan import OK, Outcome, Plan, compare_written
from oncelog.broker.metadata.store import ABSENT, Delete, Put
from oncelog.broker.metadata.topic_names import check_topic_name
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.metadata.store import Write


class ResourceType(IntEnum):
    """Kafka's numbers. Loggers have one too, and no configs in the store."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEdit(NamedTuple):
    key: str
    operation: int
    value: str | None = None


class ConfigChange(NamedTuple):
    """Edits of one resource. With `replace_all` every key without a SET goes away (the old AlterConfigs)."""

    type: int
    name: str
    edits: Sequence[ConfigEdit]
    replace_all: bool = False


class ConfigResult(NamedTuple):
    type: int
    name: str
    outcome: Outcome


class ConfigSchema(Protocol):
    """What the plans must know of the keys of one type of resource."""

    def check(self, configs: Mapping[str, str]) -> None:
        """Raises KafkaError that says in one line why the configs are refused."""

    def is_list(self, key: str) -> bool: ...

    def default(self, key: str) -> str | None:
        """The value in effect where the resource has none of its own: what APPEND adds to."""


def plan_config_changes(
    image: MetadataImage,
    changes: Sequence[ConfigChange],
    *,
    schemas: Mapping[ResourceType, ConfigSchema],
    broker_id: int,
    validate_only: bool = False,
) -> Plan[list[ConfigResult]]:
    """`broker_id` is this broker's: a broker's configs are altered only through itself, as in Kafka."""
    occurrences = Counter((change.type, change.name) for change in changes)
    results: list[ConfigResult] = []
    writes: list[Write] = []
    for change in changes:
        try:
            if occurrences[change.type, change.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            writes += _plan_change(image, change, schemas, broker_id)
        except KafkaError as error:
            results.append(ConfigResult(change.type, change.name, Outcome.refused(error)))
        else:
            results.append(ConfigResult(change.type, change.name, OK))
    if validate_only:
        writes = []
    return Plan(results, writes, compare_written(image, writes))


def _plan_change(
    image: MetadataImage,
    change: ConfigChange,
    schemas: Mapping[ResourceType, ConfigSchema],
    broker_id: int,
) -> list[Write]:
    _check_edits(change.edits)
    try:
        kind = ResourceType(change.type)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {change.type}") from None
    if kind is ResourceType.TOPIC:
        return _plan_topic(image, change, schemas[kind])
    if kind is ResourceType.BROKER:
        return _plan_broker(image, change, schemas[kind], broker_id)
    if kind is ResourceType.CLIENT_METRICS:
        return _plan_client_metrics(image, change, schemas[kind])
    return _plan_group(image, change, schemas[kind])


def _plan_topic(image: MetadataImage, change: ConfigChange, schema: ConfigSchema) -> list[Write]:
    if not change.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(change.name)
    topic = image.topic(change.name)
    present = {} if topic is None else topic.configs
    configs = _altered(present, change, schema)
    schema.check(configs)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{change.name}' does not exist.")
    if configs == present:
        return []
    replicas = [partition.replicas for partition in topic.partitions]
    return [Put(topic_key(topic.name), encode_topic(TopicRecord(topic.id, replicas, configs)))]


def _plan_broker(image: MetadataImage, change: ConfigChange, schema: ConfigSchema, broker_id: int) -> list[Write]:
    if change.name and not change.name.isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {change.name}")
    if change.name and change.name != str(broker_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id}, but received {change.name}",
        )
    configs = _altered(image.broker_configs.get(change.name, {}), change, schema)
    schema.check(configs)
    # Written even if nothing differs: setting a key again makes a broker read its files again (KAFKA-14136).
    return _put_or_delete(image, broker_configs_key(change.name), configs)


def _plan_group(image: MetadataImage, change: ConfigChange, schema: ConfigSchema) -> list[Write]:
    if not change.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    present = image.group_configs.get(change.name, {})
    configs = _altered(present, change, schema)
    schema.check(configs)
    if configs == present:
        return []
    return _put_or_delete(image, group_configs_key(change.name), configs)


def _plan_client_metrics(image: MetadataImage, change: ConfigChange, schema: ConfigSchema) -> list[Write]:
    if not change.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    present = image.client_metrics.get(change.name, {})
    configs = _altered(present, change, schema)
    schema.check(configs)
    if configs == present:
        return []
    return _put_or_delete(image, client_metrics_key(change.name), configs)


def _put_or_delete(image: MetadataImage, key: str, configs: Mapping[str, str]) -> list[Write]:
    if configs:
        return [Put(key, encode_configs(configs))]
    return [] if image.revision_of(key) == ABSENT else [Delete(key)]


def _check_edits(edits: Sequence[ConfigEdit]) -> None:
    if len({edit.key for edit in edits}) != len(edits):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if missing := [e.key for e in edits if e.value is None and e.operation != ConfigOperation.DELETE]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")


def _altered(present: Mapping[str, str], change: ConfigChange, schema: ConfigSchema) -> dict[str, str]:
    configs = {} if change.replace_all else dict(present)
    for edit in change.edits:
        if edit.operation == ConfigOperation.DELETE:
            configs.pop(edit.key, None)
        elif edit.operation == ConfigOperation.SET:
            configs[edit.key] = edit.value or ""
        elif edit.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            configs[edit.key] = _edited_list(configs.get(edit.key), edit, schema)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {edit.operation}")
    return configs


def _edited_list(present: str | None, edit: ConfigEdit, schema: ConfigSchema) -> str:
    operation = ConfigOperation(edit.operation)
    if not schema.is_list(edit.key):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {edit.key} because its type is not LIST.",
        )
    value = schema.default(edit.key) if present is None else present
    parts = [part for part in (value or "").split(",") if part]
    for item in (edit.value or "").split(","):
        if operation is ConfigOperation.SUBTRACT and item in parts:
            parts.remove(item)
        elif operation is ConfigOperation.APPEND and item not in parts:
            parts.append(item)
    return ",".join(parts)
