"""ApiVersions (key 18, versions 0-4): the APIs, their versions, and the features of this broker.

KIP-511 (client name and version), KIP-584 (features). `transaction.version` among the finalized features is
what makes a Java client choose the second generation of the transaction protocol (KIP-890).
"""

from __future__ import annotations

import re

from oncelog.broker.handlers import APIS, Api
from oncelog.broker.metadata.features import FEATURES
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.version >= 3:
        for name in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE_NAME.fullmatch(name):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's software name or version is malformed")
    features = context.services.metadata.image.features
    return ApiVersionsResponse(
        api_keys=[_api_version(api) for api in APIS.values()],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=feature.level_min, max_version=feature.level_max)
            for name, feature in FEATURES.items()
            # Clients before version 4 cannot read a minimum of 0, so such features are kept from them.
            if context.version >= 4 or feature.level_min > 0
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.levels.items()
            if level > 0
        ],
    )


def error_reply(_: ApiVersionsRequest, error: KafkaError, __: RequestContext) -> ApiVersionsResponse:
    """A client of the future is told our versions of this very API, so that it asks again in one of them (KIP-511).

    With more it would not ask again, and so never learn of the features, which version 0 does not have.
    """
    known = [ApiKey.API_VERSIONS] if error.code == ErrorCode.UNSUPPORTED_VERSION else []
    return ApiVersionsResponse(error_code=error.code, api_keys=[_api_version(APIS[key]) for key in known])


def _api_version(api: Api) -> ApiVersion:
    return ApiVersion(
        api_key=api.key,
        min_version=api.version_min if api.advertised_min is None else api.advertised_min,
        max_version=api.version_max,
    )
