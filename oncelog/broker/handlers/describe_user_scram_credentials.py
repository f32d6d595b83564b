"""DescribeUserScramCredentials (key 50, version 0): which mechanisms users can log in with (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.metadata.keys import ScramCredential, ScramMechanism


async def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    pace = Pace(context)
    image = context.services.metadata.image
    asked = Counter(user.name for user in request.users or ()) or Counter(image.users.keys())
    response = DescribeUserScramCredentialsResponse()
    for name, times in asked.items():
        response.results.append(_describe(image, name, times))
        if pace.is_over:
            await pace.rest()
    return response


def _describe(image: MetadataImage, name: str, times: int) -> DescribeUserScramCredentialsResult:
    try:
        credentials = _credentials(image, name, times)
    except KafkaError as error:
        return DescribeUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
    return DescribeUserScramCredentialsResult(
        user=name,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            for mechanism, credential in credentials.items()
        ],
    )


def _credentials(image: MetadataImage, name: str, times: int) -> Mapping[ScramMechanism, ScramCredential]:
    if times > 1:
        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if name not in image.users:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"
        )
    return image.users[name]
