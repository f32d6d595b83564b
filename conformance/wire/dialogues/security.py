"""Users and their SCRAM credentials, which a cluster keeps also while no listener asks for a login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire.good_requests import D

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

SHA_256, SHA_512 = 1, 2


def scram_users(talk: Talk, version: int) -> None:
    api, asked = D.alter_user_scram_credentials, D.describe_user_scram_credentials
    one, two, never = (talk.fresh("user") for _ in range(3))

    def put(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> Any:
        return api.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
        )

    def delete(name: str, mechanism: int = SHA_256) -> Any:
        return api.ScramCredentialDeletion(name=name, mechanism=mechanism)

    def alter(label: str, *, put: tuple[Any, ...] = (), delete: tuple[Any, ...] = ()) -> None:
        request = api.AlterUserScramCredentialsRequest(deletions=list(delete), upsertions=list(put))
        talk.say(request, version, label)

    def describe(label: str, *names: str) -> None:
        users = [asked.UserName(name=name) for name in names]
        talk.say(asked.DescribeUserScramCredentialsRequest(users=users), version, label)

    def await_known(name: str, mechanisms: int) -> None:
        """Kafka's broker hears of users behind the answers."""
        request = asked.DescribeUserScramCredentialsRequest(users=[asked.UserName(name=name)])
        talk.wait_until(
            lambda: len(talk.ask(request, version).results[0].credential_infos) == mechanisms,
            f"{name} has {mechanisms} mechanisms",
        )

    describe("nobody", one)
    alter("add two", put=(put(one), put(two, SHA_512, 16384)))
    await_known(two, 1)
    describe("each", one, two)
    describe("one and one that is absent", one, never)
    describe("the same twice", one, two, one)
    alter("another mechanism", put=(put(one, SHA_512, 8192),))
    await_known(one, 2)
    describe("both mechanisms", one)
    alter("both mechanisms at once", put=(put(two), put(two, SHA_512)))
    alter("delete and add at once", delete=(delete(one),), put=(put(one, SHA_512),))
    alter("delete twice", delete=(delete(one), delete(one)))
    alter("delete both mechanisms at once", delete=(delete(one), delete(one, SHA_512)))
    alter("three times", delete=(delete(one), delete(one)), put=(put(one),))
    alter("delete what is absent", delete=(delete(never), delete(two)))
    alter("delete what is absent, then add it", delete=(delete(never),), put=(put(never),))
    alter("too few iterations", put=(put(never, iterations=4095), put(two, SHA_512, 4096)))
    alter("too many iterations", put=(put(never, iterations=16385),))
    alter("mechanisms that do not exist", put=(put(never, 0), put(two, 3)))
    alter("no name", put=(put(""),))
    alter("delete", delete=(delete(one),))
    await_known(one, 1)
    describe("one mechanism", one)
    alter("delete the last", delete=(delete(one, SHA_512),))
    await_known(one, 0)
    describe("nobody again", one)
