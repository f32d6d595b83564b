"""Good requests of logins, ACLs, delegation tokens and users, on a cluster without any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire.good_requests.registry import D, good
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

TOPIC_RESOURCE, LITERAL, READ, ALLOW = 2, 3, 3, 3
SCRAM_SHA_256 = 1


@good(ApiKey.SASL_HANDSHAKE)
def _sasl_handshake(_: Talk, __: int) -> Any:
    return D.sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN")


@good(ApiKey.SASL_AUTHENTICATE)
def _sasl_authenticate(_: Talk, __: int) -> Any:
    return D.sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0me\0secret")


@good(ApiKey.DESCRIBE_ACLS)
def _describe_acls(_: Talk, __: int) -> Any:
    return D.describe_acls.DescribeAclsRequest(**_filter())


@good(ApiKey.CREATE_ACLS)
def _create_acls(_: Talk, __: int) -> Any:
    api = D.create_acls
    acl = api.AclCreation(
        resource_type=TOPIC_RESOURCE,
        resource_name="w-plain",
        resource_pattern_type=LITERAL,
        principal="User:w-user",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    return api.CreateAclsRequest(creations=[acl])


@good(ApiKey.DELETE_ACLS)
def _delete_acls(_: Talk, __: int) -> Any:
    api = D.delete_acls
    return api.DeleteAclsRequest(filters=[api.DeleteAclsFilter(**_filter())])


def _filter() -> dict[str, Any]:
    return {
        "resource_type_filter": TOPIC_RESOURCE,
        "resource_name_filter": "w-plain",
        "pattern_type_filter": LITERAL,
        "principal_filter": "User:w-user",
        "host_filter": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }


@good(ApiKey.CREATE_DELEGATION_TOKEN)
def _create_delegation_token(_: Talk, __: int) -> Any:
    api = D.create_delegation_token
    renewer = api.CreatableRenewers(principal_type="User", principal_name="w-renewer")
    return api.CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="w-owner", renewers=[renewer], max_lifetime_ms=60_000
    )


@good(ApiKey.RENEW_DELEGATION_TOKEN)
def _renew_delegation_token(_: Talk, __: int) -> Any:
    return D.renew_delegation_token.RenewDelegationTokenRequest(hmac=b"no token", renew_period_ms=60_000)


@good(ApiKey.EXPIRE_DELEGATION_TOKEN)
def _expire_delegation_token(_: Talk, __: int) -> Any:
    return D.expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"no token", expiry_time_period_ms=60_000)


@good(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def _describe_delegation_token(_: Talk, __: int) -> Any:
    api = D.describe_delegation_token
    owner = api.DescribeDelegationTokenOwner(principal_type="User", principal_name="w-owner")
    return api.DescribeDelegationTokenRequest(owners=[owner])


@good(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def _describe_user_scram_credentials(_: Talk, __: int) -> Any:
    api = D.describe_user_scram_credentials
    return api.DescribeUserScramCredentialsRequest(users=[api.UserName(name="w-user")])


@good(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def _alter_user_scram_credentials(talk: Talk, _: int) -> Any:
    """A user to add, and one to remove that was added before."""
    api = D.alter_user_scram_credentials
    former = talk.fresh("user")
    talk.ask(api.AlterUserScramCredentialsRequest(upsertions=[_upsertion(former)]), 0)
    deletion = api.ScramCredentialDeletion(name=former, mechanism=SCRAM_SHA_256)
    return api.AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[_upsertion(talk.fresh("user"))])


def _upsertion(name: str) -> Any:
    return D.alter_user_scram_credentials.ScramCredentialUpsertion(
        name=name, mechanism=SCRAM_SHA_256, iterations=4096, salt=b"some salt", salted_password=b"p" * 32
    )
