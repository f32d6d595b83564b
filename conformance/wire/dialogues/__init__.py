"""Dialogues: several requests, each of which rests on the answers before it, in every version of the main API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from conformance.wire.compare import Case
from conformance.wire.dialogues.bad_batches import bad_batches
from conformance.wire.dialogues.classic_groups import classic_group, list_groups, static_member, two_classic_members
from conformance.wire.dialogues.cluster import log_dirs, reassignments
from conformance.wire.dialogues.committed_offsets import offset_fetch_order, offsets
from conformance.wire.dialogues.configs import client_metrics, configs, describe_configs, quotas
from conformance.wire.dialogues.consumer_groups import consumer_group, static_consumer
from conformance.wire.dialogues.frames import frames
from conformance.wire.dialogues.records import (
    delete_records,
    fetch_offsets,
    fetch_order,
    fetch_session,
    list_offsets,
    sequences,
)
from conformance.wire.dialogues.security import scram_users
from conformance.wire.dialogues.topics import describe_topic_partitions, metadata, topic_life
from conformance.wire.dialogues.transactions import (
    expired_transaction,
    list_transactions,
    mixed_ends,
    producer_ids,
    transactional_offsets,
    transactions,
)
from oncelog.broker.handlers import APIS
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.wire.talk import Talk


def dialogue_cases() -> Iterator[Case]:
    for key, dialogue in (
        (ApiKey.JOIN_GROUP, classic_group),
        (ApiKey.JOIN_GROUP, two_classic_members),
        (ApiKey.JOIN_GROUP, static_member),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, consumer_group),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, static_consumer),
        (ApiKey.OFFSET_COMMIT, offsets),
        (ApiKey.PRODUCE, sequences),
        (ApiKey.PRODUCE, bad_batches),
        (ApiKey.FETCH, fetch_session),
        (ApiKey.FETCH, fetch_offsets),
        (ApiKey.FETCH, fetch_order),
        (ApiKey.OFFSET_FETCH, offset_fetch_order),
        (ApiKey.LIST_OFFSETS, list_offsets),
        (ApiKey.INIT_PRODUCER_ID, producer_ids),
        (ApiKey.END_TXN, transactions),
        (ApiKey.END_TXN, expired_transaction),
        (ApiKey.END_TXN, mixed_ends),
        (ApiKey.TXN_OFFSET_COMMIT, transactional_offsets),
        (ApiKey.CREATE_TOPICS, topic_life),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, configs),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, client_metrics),
        (ApiKey.ALTER_CLIENT_QUOTAS, quotas),
        (ApiKey.DELETE_RECORDS, delete_records),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, describe_topic_partitions),
        (ApiKey.LIST_TRANSACTIONS, list_transactions),
        (ApiKey.LIST_GROUPS, list_groups),
        (ApiKey.DESCRIBE_CONFIGS, describe_configs),
        (ApiKey.METADATA, metadata),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassignments),
        (ApiKey.ALTER_REPLICA_LOG_DIRS, log_dirs),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, scram_users),
        (ApiKey.API_VERSIONS, frames),
    ):
        api = APIS[key]
        for version in range(api.version_min, api.version_max + 1):
            yield Case(
                f"{dialogue.__name__.strip('_').replace('_', ' ')} v{version}", partial(_start, dialogue, version)
            )


def _start(dialogue: Callable[[Talk, int], None], version: int, talk: Talk) -> None:
    dialogue(talk, version)
