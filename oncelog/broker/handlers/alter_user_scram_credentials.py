"""AlterUserScramCredentials (key 51, version 0): set and remove what users log in with (KIP-554).

The request carries a salted password. Only keys that are derived from it are stored.
"""

from __future__ import annotations

from oncelog.broker.admin.users import alter_scram_credentials
from oncelog.broker.metadata.plans.users import CredentialChange, NewPassword
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    changes = [CredentialChange(deletion.name, deletion.mechanism) for deletion in request.deletions]
    changes += [
        CredentialChange(
            upsertion.name,
            upsertion.mechanism,
            NewPassword(upsertion.iterations, bytes(upsertion.salt), bytes(upsertion.salted_password)),
        )
        for upsertion in request.upsertions
    ]
    outcomes = await alter_scram_credentials(context.services, changes)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=outcome.code, error_message=outcome.message)
            for name, outcome in outcomes.items()
        ]
    )


def error_reply(
    request: AlterUserScramCredentialsRequest, error: KafkaError, _: RequestContext
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys(deletion.name for deletion in request.deletions)
    names |= dict.fromkeys(upsertion.name for upsertion in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
            for name in names
        ]
    )
