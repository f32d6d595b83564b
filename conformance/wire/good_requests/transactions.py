"""Good requests of producers and their transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.good_requests.registry import D, good
from conformance.wire.state import ABSENT, DONE, EMPTY, MIXED, OPEN, PLAIN
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


@good(ApiKey.INIT_PRODUCER_ID)
def _init_producer_id(talk: Talk, _: int) -> Any:
    return D.init_producer_id.InitProducerIdRequest(
        transactional_id=talk.fresh("id"), transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )


@good(ApiKey.ADD_PARTITIONS_TO_TXN)
def _add_partitions_to_txn(talk: Talk, _: int) -> Any:
    api = D.add_partitions_to_txn
    name = talk.fresh("id")
    producer_id, epoch = state.init_producer(talk, name)
    topics = [api.AddPartitionsToTxnTopic(name=PLAIN, partitions=[1])]
    return api.AddPartitionsToTxnRequest(
        transactions=[
            api.AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, topics=topics
            )
        ],
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )


@good(ApiKey.ADD_OFFSETS_TO_TXN)
def _add_offsets_to_txn(talk: Talk, _: int) -> Any:
    name = talk.fresh("id")
    producer_id, epoch = state.init_producer(talk, name)
    return D.add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=EMPTY
    )


@good(ApiKey.END_TXN)
def _end_txn(talk: Talk, _: int) -> Any:
    name = talk.fresh("id")
    producer = state.init_producer(talk, name)
    state.add_partition(talk, name, producer, talk.kept.get("ended") or _ended(talk))
    return D.end_txn.EndTxnRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=True
    )


def _ended(talk: Talk) -> str:
    talk.kept["ended"] = talk.create_topic("w-ended")
    return str(talk.kept["ended"])


@good(ApiKey.WRITE_TXN_MARKERS)
def _write_txn_markers(talk: Talk, _: int) -> Any:
    api = D.write_txn_markers
    producer_id, epoch = state.init_producer(talk, None)
    topic = api.WritableTxnMarkerTopic(name=talk.kept.get("ended") or _ended(talk), partition_indexes=[0])
    marker = api.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=True,
        topics=[topic],
        coordinator_epoch=0,
    )
    return api.WriteTxnMarkersRequest(markers=[marker])


@good(ApiKey.TXN_OFFSET_COMMIT)
def _txn_offset_commit(talk: Talk, version: int) -> Any:
    api = D.txn_offset_commit
    name, group = talk.fresh("id"), talk.fresh("group")
    producer_id, epoch = state.init_producer(talk, name)
    if version < 5:
        talk.ask(
            D.add_offsets_to_txn.AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
            ),
            3,
        )
    partition = api.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")
    return api.TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        generation_id=-1,
        topics=[api.TxnOffsetCommitRequestTopic(name=PLAIN, partitions=[partition])],
    )


@good(ApiKey.DESCRIBE_PRODUCERS)
def _describe_producers(_: Talk, __: int) -> Any:
    topic = D.describe_producers.TopicRequest(name=MIXED, partition_indexes=[0])
    return D.describe_producers.DescribeProducersRequest(topics=[topic])


@good(ApiKey.DESCRIBE_TRANSACTIONS)
def _describe_transactions(_: Talk, __: int) -> Any:
    return D.describe_transactions.DescribeTransactionsRequest(transactional_ids=[OPEN, DONE, ABSENT])


@good(ApiKey.LIST_TRANSACTIONS)
def _list_transactions(talk: Talk, _: int) -> Any:
    return D.list_transactions.ListTransactionsRequest(
        state_filters=["Ongoing"],
        producer_id_filters=[talk.kept["open producer"][0]],
        duration_filter=-1,
        transactional_id_pattern="w-.*",
    )
