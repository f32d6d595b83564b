"""CreateAcls (key 30, versions 1-3): add ACLs.

There is no authorizer yet; SECURITY_DISABLED is what Kafka answers without one.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

CHUNKS = (along("creations", "results"),)


def handle(_: CreateAclsRequest, __: RequestContext) -> CreateAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def error_reply(request: CreateAclsRequest, error: KafkaError, _: RequestContext) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[refused] * len(request.creations))
