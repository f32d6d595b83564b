"""WriteTxnMarkers (key 27, versions 1-2): end transactions in partitions that this broker leads (KIP-98).

Other brokers' coordinators send it, and `kafka-transactions abort` for a transaction that hangs. A marker that no
coordinator can mean is refused with the code that Kafka has for what it did not expect, and nothing is written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.coordinator.txn.requests import WriteMarkers
from oncelog.broker.coordinator.txn.state import NO_EPOCH, NO_PRODUCER_ID
from oncelog.broker.replica.waiters import AckCountdown
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.txn.markers import write_marker
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

_UNKNOWN_VERSION = -1
_Results = dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]]
"""By producer, topic and partition."""

CHUNKS = (along("markers.topics.partition_indexes", "markers.topics.partitions"),)


def handle(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    for marker in request.markers:
        _check_producer(marker)
    response = WriteTxnMarkersResponse()
    countdown = AckCountdown(response)
    waits = False
    results: _Results = {}
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                results.setdefault(marker.producer_id, {}).setdefault(topic.name, {})[index] = result
                waits |= _write(marker, topic.name, index, result, countdown, context)
    response.markers = _told(results)
    return countdown if waits else response


def _told(results: _Results) -> list[WritableTxnMarkerResult]:
    """Each producer once, with those of its partitions that got a marker."""
    return [
        WritableTxnMarkerResult(
            producer_id=producer_id,
            topics=[
                WritableTxnMarkerTopicResult(name=name, partitions=list(partitions.values()))
                for name, partitions in topics.items()
            ],
        )
        for producer_id, topics in results.items()
    ]


def error_reply(request: WriteTxnMarkersRequest, error: KafkaError, _: RequestContext) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error.code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _write(
    marker: WritableTxnMarker,
    topic: str,
    index: int,
    result: WritableTxnMarkerPartitionResult,
    countdown: AckCountdown[WriteTxnMarkersResponse],
    context: RequestContext,
) -> bool:
    """Whether the answer has to wait for the marker to become safe."""
    effect = WriteMarkers(
        "",
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        frozenset(),
        marker.transaction_version,
    )
    try:
        context.services.partitions.leader(topic, index)
        _check_version(marker)
        partition, offset = write_marker(context.services, (topic, index), effect, marker.coordinator_epoch)
    except KafkaError as error:
        result.error_code = error.code
        return False
    committed = partition.committed(offset, alone=False)
    if committed is None:
        return False
    countdown.expect()
    committed.then(partial(_note, result, countdown))
    return True


def _check_producer(marker: WritableTxnMarker) -> None:
    if marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_EPOCH:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a marker belongs to a producer, and this one has none")


def _check_version(marker: WritableTxnMarker) -> None:
    if marker.transaction_version == _UNKNOWN_VERSION:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the marker does not say which transaction version it is of")


def _note(
    result: WritableTxnMarkerPartitionResult,
    countdown: AckCountdown[WriteTxnMarkersResponse],
    committed: Promise[None],
) -> None:
    error = committed.exception()
    if isinstance(error, KafkaError):
        result.error_code = error.code
    countdown.arrived()
