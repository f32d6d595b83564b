"""DeleteAcls (key 31, versions 1-3): remove the ACLs that match filters.

There is no authorizer yet; SECURITY_DISABLED is what Kafka answers without one.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

CHUNKS = (along("filters", "filter_results"),)


def handle(_: DeleteAclsRequest, __: RequestContext) -> DeleteAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def error_reply(request: DeleteAclsRequest, error: KafkaError, _: RequestContext) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
