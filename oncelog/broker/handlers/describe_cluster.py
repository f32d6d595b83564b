"""DescribeCluster (key 60, versions 0-2): the cluster's id, controller and brokers."""

from __future__ import annotations

from oncelog.broker.requests.authorized_operations import CLUSTER_OPERATIONS
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.endpoints import endpoints
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "the request was sent to a broker, but asks for controllers"
        )
    if request.endpoint_type != _BROKERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    image = context.services.metadata.image
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=broker.id, host=host, port=port, rack=broker.rack)
            for broker, host, port in endpoints(image, context)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
