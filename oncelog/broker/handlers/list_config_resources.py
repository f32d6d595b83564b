"""ListConfigResources (key 74, versions 0-1): the names of all resources that have settings (KIP-1142).

Version 0 knows client metrics only (KIP-714).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.admin.configs import BROKER_LOGGER
from oncelog.broker.metadata.plans.configs import ResourceType
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.requests.context import RequestContext

_ALL = (ResourceType.TOPIC, ResourceType.BROKER, BROKER_LOGGER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)


def handle(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    wanted = (request.resource_types or _ALL) if context.version > 0 else (ResourceType.CLIENT_METRICS,)
    if not set(wanted) <= set(_ALL):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "an unknown resource type was asked for")
    image = context.services.metadata.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in dict.fromkeys(wanted)
            for name in _names(resource_type, image)
        ]
    )


def _names(resource_type: int, image: MetadataImage) -> Iterable[str]:
    if resource_type == ResourceType.TOPIC:
        return image.topics
    if resource_type in (ResourceType.BROKER, BROKER_LOGGER):
        return [str(broker_id) for broker_id in image.brokers]
    if resource_type == ResourceType.GROUP:
        return image.group_configs
    return image.client_metrics
