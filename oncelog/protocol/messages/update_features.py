"""UpdateFeatures (key 57): raise or lower the finalized versions of features (KIP-584, KIP-778)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class FeatureUpdateKey(Struct):
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = field("0")
    upgrade_type: Int8 = field("1+", default=1)


class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: Int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field("1+")


class UpdatableFeatureResult(Struct):
    feature: String
    error_code: Int16
    error_message: String | None = field(nullable="0+")


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    results: list[UpdatableFeatureResult] = field("0-1")
