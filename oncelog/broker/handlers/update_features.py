"""UpdateFeatures (key 57, versions 0-2): raise or lower finalized feature levels (KIP-584, KIP-778, KIP-1022)."""

from __future__ import annotations

from oncelog.broker.metadata.plans.cluster import FeatureUpdate, UpgradeType, plan_update_features
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    updates = [_update(asked, context.version) for asked in request.feature_updates]
    outcome = await context.services.metadata.change(
        lambda image: plan_update_features(image, updates, validate_only=request.validate_only)
    )
    return UpdateFeaturesResponse(
        error_code=outcome.code,
        error_message=outcome.message,
        # All are updated or none is, and a refusal stands at the top.
        results=[
            UpdatableFeatureResult(feature=update.name, error_message=ErrorCode.NONE.name)
            for update in updates
            if not outcome.code
        ],
    )


def _update(asked: FeatureUpdateKey, version: int) -> FeatureUpdate:
    """Version 0 has a flag instead of the type, and its downgrades are the unsafe ones."""
    upgrade_type = asked.upgrade_type
    if version == 0:
        upgrade_type = UpgradeType.UNSAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(asked.feature, asked.max_version_level, upgrade_type)
