"""Decisions about the cluster as a whole: its identity, its brokers, its features and its producer ids."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from oncelog.broker.metadata.features import FEATURES, INITIAL_LEVELS, METADATA_VERSION
from oncelog.broker.metadata.keys import (
    CLUSTER,
    PRODUCER_IDS,
    broker_key,
    encode_broker,
    encode_cluster,
    encode_levels,
    encode_producer_ids,
)
from oncelog.broker.metadata.keys import (
    FEATURES as FEATURES_KEY,
)
from oncelog.broker.metadata.plans.plan import OK, Outcome, Plan, compare_written
from oncelog.broker.metadata.store import ABSENT, Delete, Put
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncelog.broker.metadata.image import BrokerImage, MetadataImage

PRODUCER_IDS_PER_BLOCK = 1000
_INT64_MAX = 2**63 - 1


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


class ProducerIdBlock(NamedTuple):
    first: int
    size: int


def plan_bootstrap(image: MetadataImage, *, cluster_id: str) -> Plan[str]:
    """Gives a new cluster its id and features; of an old one, the result is the id that it has."""
    writes = []
    if image.revision_of(CLUSTER) == ABSENT:
        writes.append(Put(CLUSTER, encode_cluster(cluster_id)))
    if image.revision_of(FEATURES_KEY) == ABSENT:
        writes.append(Put(FEATURES_KEY, encode_levels(INITIAL_LEVELS)))
    return Plan(image.cluster_id or cluster_id, writes, compare_written(image, writes))


def plan_register_broker(image: MetadataImage, broker: BrokerImage, *, lease: int | None = None) -> Plan[None]:
    """A leased registration vanishes with the broker; the revision of its key is the broker's epoch."""
    if lease is None and image.brokers.get(broker.id) == broker:
        return Plan(None)
    writes = [Put(broker_key(broker.id), encode_broker(broker.rack, broker.listeners), lease)]
    return Plan(None, writes, compare_written(image, writes))


def plan_unregister_broker(image: MetadataImage, broker_id: int, *, running_id: int) -> Plan[None]:
    if broker_id not in image.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    if broker_id == running_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running; stop it before you unregister it.")
    writes = [Delete(broker_key(broker_id))]
    return Plan(None, writes, compare_written(image, writes))


def plan_update_features(
    image: MetadataImage, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
) -> Plan[Outcome]:
    """All updates or none: the outcome is that of the whole request (KIP-1022)."""
    levels = dict(image.features.levels)
    try:
        for update in updates:
            _check_feature(image, update)
            levels[update.name] = update.level
    except KafkaError as error:
        message = f"The update failed for all features since the following feature had an error: {error.message}"
        return Plan(Outcome(error.code, message))
    levels = {name: level for name, level in levels.items() if level}
    if validate_only or levels == image.features.levels:
        return Plan(OK)
    writes = [Put(FEATURES_KEY, encode_levels(levels))]
    return Plan(OK, writes, compare_written(image, writes))


def plan_allocate_producer_ids(image: MetadataImage, *, size: int = PRODUCER_IDS_PER_BLOCK) -> Plan[ProducerIdBlock]:
    """The block is gone once it is written, so what a crash leaves of it is never used by anybody."""
    first = image.producer_id_next
    if first > _INT64_MAX - size:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "There are no producer ids left.")
    writes = [Put(PRODUCER_IDS, encode_producer_ids(first + size))]
    return Plan(ProducerIdBlock(first, size), writes, compare_written(image, writes))


def _check_feature(image: MetadataImage, update: FeatureUpdate) -> None:
    name, level, upgrade_type = update
    feature = FEATURES.get(name)
    present = image.features.levels.get(name, 0)
    if upgrade_type not in list(UpgradeType):
        raise _invalid_update(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid_update(update, "A feature version cannot be less than 0.")
    if feature is None:
        raise _invalid_update(update, "This feature is not supported.")
    if not feature.level_min <= level <= feature.level_max:
        raise _invalid_update(update, f"Only versions {feature.level_min}-{feature.level_max} are supported.")
    if level < present and upgrade_type == UpgradeType.UPGRADE:
        raise _invalid_update(update, "A downgrade needs the upgrade type to be safe downgrade or unsafe downgrade.")
    if level > present and upgrade_type != UpgradeType.UPGRADE:
        raise _invalid_update(update, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION and level < present:
        raise _invalid_update(update, "A downgrade of the metadata version could lose metadata.")


def _invalid_update(update: FeatureUpdate, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )
