from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
import scramp

from oncelog.broker.metadata.controller import CredentialChange, NewPassword, plan_scram_credentials
from oncelog.broker.metadata.keys import ScramCredential, ScramMechanism
from oncelog.broker.metadata.store import Delete, Put
from tests.broker.metadata.images import applied, cluster

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage

SHA_256, SHA_512 = ScramMechanism
GOOD = NewPassword(4096, b"salt", b"p" * 32)


def put(user: str, mechanism: int = SHA_256, password: NewPassword = GOOD) -> CredentialChange:
    return CredentialChange(user, mechanism, password)


def delete(user: str, mechanism: int = SHA_256) -> CredentialChange:
    return CredentialChange(user, mechanism)


def altered(image: MetadataImage, *changes: CredentialChange) -> MetadataImage:
    plan = plan_scram_credentials(image, changes)
    assert {outcome.code for outcome in plan.results.values()} == {0}
    return applied(image, plan)


def codes(image: MetadataImage, *changes: CredentialChange) -> dict[str, int]:
    plan = plan_scram_credentials(image, changes)
    return {user: outcome.code for user, outcome in plan.results.items()}


@pytest.mark.parametrize(("mechanism", "algorithm"), [(SHA_256, "sha256"), (SHA_512, "sha512")])
def test_the_keys_are_those_of_rfc_5802(mechanism: ScramMechanism, algorithm: str) -> None:
    salt, iterations = b"sixteen of bytes", 5000
    oracle = scramp.ScramMechanism(mechanism.sasl_name)
    _, stored_key, server_key, _ = oracle.make_auth_info("pencil", iteration_count=iterations, salt=salt)
    salted_password = hashlib.pbkdf2_hmac(algorithm, b"pencil", salt, iterations)
    image = altered(cluster(), put("me", mechanism, NewPassword(iterations, salt, salted_password)))
    assert image.users == {"me": {mechanism: ScramCredential(iterations, salt, stored_key, server_key)}}


def test_a_password_is_neither_stored_nor_shown() -> None:
    plan = plan_scram_credentials(cluster(), [put("me", password=NewPassword(4096, b"salt", b"hush-hush"))])
    (write,) = plan.writes
    assert isinstance(write, Put)
    assert b"hush" not in write.value
    assert b"hush-hush".hex().encode() not in write.value
    assert "hush" not in repr(put("me", password=NewPassword(4096, b"salt", b"hush-hush")))
    credential = ScramCredential(4096, b"salt", b"stored", b"server")
    assert not any(secret in repr(credential) for secret in ("salt", "stored", "server"))


def test_both_mechanisms_of_a_user_are_one_key_that_goes_with_the_last() -> None:
    image = altered(cluster(), put("ü/,="))
    image = altered(image, put("ü/,=", SHA_512))
    assert list(image.users["ü/,="]) == [SHA_256, SHA_512]
    image = altered(image, delete("ü/,="))
    assert list(image.users["ü/,="]) == [SHA_512]
    plan = plan_scram_credentials(image, [delete("ü/,=", SHA_512)])
    assert isinstance(plan.writes[0], Delete)
    assert applied(image, plan).users == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (put(""), 93),
        (put("u", password=GOOD._replace(iterations=4095)), 93),
        (put("u", password=GOOD._replace(iterations=16385)), 93),
        (put("u", password=GOOD._replace(salted_password=b"")), 93),
        (put("u", 0), 33),
        (put("u", 3), 33),
        (delete("u", -1), 33),
        (delete(""), 93),
        (delete("u"), 91),
        (delete("there", SHA_512), 91),
    ],
)
def test_refusals(change: CredentialChange, code: int) -> None:
    image = altered(cluster(), put("there"))
    plan = plan_scram_credentials(image, [change, put("good")])
    assert {user: outcome.code for user, outcome in plan.results.items()} == {change.user: code, "good": 0}
    assert [write.key for write in plan.writes] == ["/users/good"]


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_bounds_of_iterations(iterations: int) -> None:
    assert codes(cluster(), put("u", password=GOOD._replace(iterations=iterations))) == {"u": 0}


@pytest.mark.parametrize(
    "changes",
    [
        [put("u"), put("u")],
        [put("u"), put("u", SHA_512)],
        [delete("u"), put("u")],
        [delete("u"), delete("u", SHA_512)],
        [delete("u"), delete("u"), put("u")],
        [put("u"), put("u", 9)],
    ],
)
def test_a_user_twice_is_refused_and_unchanged(changes: list[CredentialChange]) -> None:
    image = altered(cluster(), put("u"), put("other"))
    plan = plan_scram_credentials(image, [*changes, delete("other")])
    assert {user: outcome.code for user, outcome in plan.results.items()} == {"u": 92, "other": 0}
    assert [write.key for write in plan.writes] == ["/users/other"]


def test_the_first_refusal_of_a_user_counts() -> None:
    assert codes(cluster(), delete("u"), put("u")) == {"u": 91}
