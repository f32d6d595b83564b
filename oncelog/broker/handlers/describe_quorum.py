"""DescribeQuorum (key 55, versions 0-2): who keeps the cluster's metadata, and up to which offset (KIP-595, KIP-836).

The metadata is in one store, which the controller serves alone. So the quorum has one voter, which leads it in
its first epoch, and an offset is a revision of the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from oncelog.broker.requests.endpoints import endpoints
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext

_LEADER_EPOCH = 1


def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    if not _asks_for_metadata(request):
        return DescribeQuorumResponse(topics=[_unknown(topic) for topic in request.topics])
    image = context.services.metadata.image
    now_ms = context.services.clock.wall_ms()
    voter = ReplicaState(
        replica_id=image.controller_id,
        log_end_offset=image.revision,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = ResponsePartitionData(
        partition_index=0,
        leader_id=image.controller_id,
        leader_epoch=_LEADER_EPOCH,
        high_watermark=image.revision,
        current_voters=[voter],
    )
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        nodes=[
            Node(node_id=broker.id, listeners=[Listener(name=context.peer.listener_name, host=host, port=port)])
            for broker, host, port in endpoints(image, context)
            if broker.id == image.controller_id
        ],
    )


def _asks_for_metadata(request: DescribeQuorumRequest) -> bool:
    """Kafka answers for the one partition of the metadata topic alone, and refuses a request that names more."""
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    return asked == [(CLUSTER_METADATA_TOPIC, 0)] and len(request.topics) == 1


def _unknown(topic: RequestTopicData) -> ResponseTopicData:
    return ResponseTopicData(
        topic_name=topic.topic_name,
        partitions=[
            ResponsePartitionData(
                partition_index=partition.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message="This server does not host this topic-partition. The quorum keeps partition 0 of"
                f" {CLUSTER_METADATA_TOPIC}, and nothing else.",
            )
            for partition in topic.partitions
        ],
    )
