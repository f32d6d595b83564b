"""PushTelemetry (key 72): a client's metrics in OpenTelemetry's encoding (KIP-714)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Bytes, Int8, Int16, Int32, Uuid
from oncelog.protocol.schema import Message


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
