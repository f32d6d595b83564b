"""AlterConfigs (key 33, versions 0-2): replace all settings of a topic, broker or group; superseded by 44."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.metadata.config_plans import ConfigChange, ConfigEdit, ConfigOperation
from oncelog.broker.runtime.configs import alter_configs
from oncelog.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.runtime.context import RequestContext
    from oncelog.protocol.errors import KafkaError


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
    return AlterConfigsResponse(
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


def error_reply(request: AlterConfigsRequest, error: KafkaError, _: RequestContext) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
