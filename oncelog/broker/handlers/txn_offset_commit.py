"""TxnOffsetCommit (key 28, versions 0-5): store a group's positions as part of a transaction (KIP-98, KIP-447).

The offsets are pending until the transaction ends. From version 5 on the partition of the offsets is added to the
transaction by the request itself (KIP-890); before, the client has done so with AddOffsetsToTxn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.group.common import Committer
from oncelog.broker.coordinator.group.offsets import OffsetEntry
from oncelog.broker.coordinator.run.context import TxnOwner
from oncelog.broker.coordinator.run.group_host import settled
from oncelog.broker.coordinator.txn.state import ProducerIdentity
from oncelog.broker.txn.producers import client_of
from oncelog.broker.txn.verification import as_leader_error, enlist, not_enlisted
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from oncelog.broker.log.verification import VerificationGuard
    from oncelog.broker.requests.context import RequestContext

_ADDED_BY_COMMIT_SINCE = 5
_TRANSACTION_ABORTABLE_SINCE = 4
_LOAD_IN_PROGRESS_SINCE = 2

CHUNKS = (along("topics.partitions"),)


async def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    """Partitions that do not exist are refused one by one; the rest goes to the group's coordinator."""
    response = TxnOffsetCommitResponse()
    entries: list[OffsetEntry] = []
    accepted: list[TxnOffsetCommitResponsePartition] = []
    for topic in request.topics:
        image = context.services.metadata.image.topic(topic.name)
        answers = []
        for partition in topic.partitions:
            answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            answers.append(answer)
            if image is None or not 0 <= partition.partition_index < len(image.partitions):
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            accepted.append(answer)
            entries.append(
                OffsetEntry(
                    topic.name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    image.id,
                )
            )
        if answers:
            response.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
    if entries:
        for answer, code in zip(accepted, await _commit(request, entries, context), strict=True):
            answer.error_code = code
    return response


def error_reply(request: TxnOffsetCommitRequest, error: KafkaError, context: RequestContext) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=_code_for(error, context.version)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _commit(
    request: TxnOffsetCommitRequest, entries: list[OffsetEntry], context: RequestContext
) -> list[ErrorCode]:
    try:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        guard = await _enlist(request, context)
        shard = context.services.groups.shard_for(request.group_id)
        await shard.loading()
        committer = Committer(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id, context.version
        )
        return await settled(
            shard.run_transactional(
                lambda coordinator, now: coordinator.commit_transactional_offsets(committer, entries, now),
                TxnOwner(request.producer_id, request.producer_epoch, guard),
            )
        )
    except KafkaError as error:
        return [_code_for(error, context.version)] * len(entries)


async def _enlist(request: TxnOffsetCommitRequest, context: RequestContext) -> VerificationGuard | None:
    """Have the partition of the offsets verified or added, like that of any other record."""
    services = context.services
    adds = context.version >= _ADDED_BY_COMMIT_SINCE
    shard = services.groups.shard_for(request.group_id)
    shard.check_online()
    log = shard.partition.log
    if not adds and not log.config.transaction_verification:
        return None
    guard = log.begin_verification(
        *(request.producer_id, 0, request.producer_epoch), supports_epoch_bump=adds, now_ms=services.clock.wall_ms()
    )
    if guard is None:
        return None
    partition = (services.groups.topic, services.groups.partition_of(request.group_id))
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    missing = enlist(
        *(services, request.transactional_id, producer, frozenset((partition,))), adds=adds, client=client_of(context)
    )
    if await settled(missing):
        raise not_enlisted()
    return guard


def _code_for(error: KafkaError, version: int) -> ErrorCode:
    code = as_leader_error(
        error,
        knows_abortable=version >= _TRANSACTION_ABORTABLE_SINCE,
        knows_concurrent=version >= _ADDED_BY_COMMIT_SINCE,
    ).code
    if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version >= _LOAD_IN_PROGRESS_SINCE:
        return error.code
    if error.code == ErrorCode.NOT_COORDINATOR:
        return error.code
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code == ErrorCode.NOT_ENOUGH_REPLICAS else code
