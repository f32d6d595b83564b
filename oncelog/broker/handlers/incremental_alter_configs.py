"""IncrementalAlterConfigs (key 44, versions 0-1): set, delete, append to or subtract from single settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.admin.configs import alter_configs, refused_changes, resource_responses
from oncelog.broker.metadata.plans.configs import ConfigChange, ConfigEdit
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

CHUNKS = (along("resources", "responses"),)


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    changes = [
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigEdit(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    results = await alter_configs(context.services, changes, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=resource_responses(AlterConfigsResourceResponse, results))


def error_reply(
    request: IncrementalAlterConfigsRequest, error: KafkaError, _: RequestContext
) -> IncrementalAlterConfigsResponse:
    resources = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    results = refused_changes(resources, error)
    return IncrementalAlterConfigsResponse(responses=resource_responses(AlterConfigsResourceResponse, results))
