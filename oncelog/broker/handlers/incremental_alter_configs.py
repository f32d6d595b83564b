"""IncrementalAlterConfigs (key 44, versions 0-1): set, delete, append to or subtract from single settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.metadata.config_plans import ConfigChange, ConfigEdit
from oncelog.broker.runtime.configs import alter_configs
from oncelog.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.runtime.context import RequestContext
    from oncelog.protocol.errors import KafkaError


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
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=result.outcome.code,
                error_message=result.outcome.message,
                resource_type=result.type,
                resource_name=result.name,
            )
            for result in results
        ]
    )


def error_reply(
    request: IncrementalAlterConfigsRequest, error: KafkaError, _: RequestContext
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
