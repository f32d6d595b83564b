"""What a client hears of logins, ACLs and delegation tokens where there are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from oncelog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog.protocol.messages.describe_acls import DescribeAclsRequest
from oncelog.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from oncelog.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from oncelog.protocol.messages.metadata import MetadataRequest
from oncelog.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from oncelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient

ILLEGAL_SASL_STATE, SECURITY_DISABLED, TOKEN_REQUEST_NOT_ALLOWED = 34, 54, 64


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        yield client
    broker.stop()


def test_a_client_that_wants_to_log_in_is_answered_and_may_go_on(client: RawClient) -> None:
    for version in (0, 1):
        answer = client.call(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (answer.error_code, answer.mechanisms) == (ILLEGAL_SASL_STATE, [])
    for version in (0, 1, 2):
        answer = client.call(SaslAuthenticateRequest(auth_bytes=b"\0me\0secret"), version)
        assert (answer.error_code, answer.auth_bytes) == (ILLEGAL_SASL_STATE, b"")
        assert "security.protocol=PLAINTEXT" in answer.error_message
    assert client.call(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_off(client: RawClient, version: int) -> None:
    described = client.call(DescribeAclsRequest(), version)
    assert (described.error_code, described.resources) == (SECURITY_DISABLED, [])
    created = client.call(CreateAclsRequest(creations=[AclCreation(), AclCreation()]), version)
    assert [result.error_code for result in created.results] == [SECURITY_DISABLED] * 2
    deleted = client.call(DeleteAclsRequest(filters=[DeleteAclsFilter(), DeleteAclsFilter()]), version)
    assert [result.error_code for result in deleted.filter_results] == [SECURITY_DISABLED] * 2
    messages = [described, *created.results, *deleted.filter_results]
    assert all(message.error_message.startswith("No Authorizer is configured") for message in messages)


@pytest.mark.parametrize("version", [1, 2])
def test_tokens_are_not_for_clients_without_a_login(client: RawClient, version: int) -> None:
    created = client.call(CreateDelegationTokenRequest(max_lifetime_ms=1000), version)
    assert (created.error_code, created.principal_name) == (TOKEN_REQUEST_NOT_ALLOWED, "ANONYMOUS")
    assert (created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms) == (-1, -1, -1)
    for request in (RenewDelegationTokenRequest(hmac=b"h"), ExpireDelegationTokenRequest(hmac=b"h")):
        answer = client.call(request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (TOKEN_REQUEST_NOT_ALLOWED, -1)
    described = client.call(DescribeDelegationTokenRequest(owners=None), version)
    assert (described.error_code, described.tokens) == (TOKEN_REQUEST_NOT_ALLOWED, [])


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        (("User", "me"), ("User", "me")),
        (("User", None), ("User", "ANONYMOUS")),
        (("User", ""), ("User", "ANONYMOUS")),
        ((None, "me"), ("User", "ANONYMOUS")),
    ],
)
def test_the_owner_of_a_refused_token(
    client: RawClient, owner: tuple[str | None, str | None], told: tuple[str, str]
) -> None:
    kind, name = owner
    answer = client.call(CreateDelegationTokenRequest(owner_principal_type=kind, owner_principal_name=name), 3)
    assert answer.error_code == TOKEN_REQUEST_NOT_ALLOWED
    assert (answer.principal_type, answer.principal_name) == told
    requester = (answer.token_requester_principal_type, answer.token_requester_principal_name)
    assert requester == ("User", "ANONYMOUS")
