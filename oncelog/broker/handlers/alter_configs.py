"""AlterConfigs (key 33, versions 0-2): replace all settings of a topic, broker or group; superseded by 44."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.admin.configs import alter_configs, refused_changes, resource_responses
from oncelog.broker.metadata.plans.configs import ConfigChange, ConfigEdit, ConfigOperation
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("resources", "responses"),)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    changes = [
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigEdit(config.name, ConfigOperation.SET, config.value) for config in resource.configs],
            replace_all=True,
        )
        for resource in request.resources
    ]
    results = await alter_configs(context.services, changes, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=resource_responses(AlterConfigsResourceResponse, results))


def error_reply(request: AlterConfigsRequest, error: KafkaError, _: RequestContext) -> AlterConfigsResponse:
    resources = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    results = refused_changes(resources, error)
    return AlterConfigsResponse(responses=resource_responses(AlterConfigsResourceResponse, results))
