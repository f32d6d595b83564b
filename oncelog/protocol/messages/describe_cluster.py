"""DescribeCluster (key 60): the cluster's id, controller and brokers (KIP-700, KIP-919)."""

from __future__ import annotations

from oncelog.protocol.messages.sentinels import AUTHORIZED_OPERATIONS_UNSET
from oncelog.protocol.primitives import Bool, Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+")


class DescribeClusterBroker(Struct):
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = field(nullable="0+", default=None)
    is_fenced: Bool = field("2+")


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String
    controller_id: Int32 = field(default=-1)
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = field(default=AUTHORIZED_OPERATIONS_UNSET)
