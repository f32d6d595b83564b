"""DescribeAcls (key 29, versions 1-3): the ACLs that match a filter.

There is no authorizer yet; SECURITY_DISABLED is what Kafka answers without one.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(_: DescribeAclsRequest, __: RequestContext) -> DescribeAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
