"""Changes the SCRAM credentials of users (KIP-554). Passwords are not kept: a credential is what RFC 5802 derives."""

from __future__ import annotations

from hashlib import new as new_hash
from hmac import digest as hmac_digest
from typing import TYPE_CHECKING

from oncelog.broker.metadata.keys import ScramCredential, ScramMechanism, encode_user, user_key
from oncelog.broker.metadata.plans.plan import OK, Outcome, Plan, compare_written
from oncelog.broker.metadata.store import Delete, Put
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.metadata.store import Write

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
_HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


class NewPassword(NamedTuple):
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"NewPassword(iterations={self.iterations})"


class CredentialChange(NamedTuple):
    """Sets the credential of a user for a mechanism, or deletes it if there is no password."""

    user: str
    mechanism: int
    password: NewPassword | None = None


def plan_scram_credentials(image: MetadataImage, changes: Sequence[CredentialChange]) -> Plan[dict[str, Outcome]]:
    """The outcome for each user. A user whose change is refused does not affect the others."""
    outcomes: dict[str, Outcome] = {}
    writes: dict[str, Write] = {}
    for change in changes:
        try:
            if change.user in writes:
                # Also for two mechanisms: Kafka changes one credential of a user in a request.
                del writes[change.user]
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            if change.user not in outcomes:
                writes[change.user] = _plan_change(image.users.get(change.user, {}), change)
                outcomes[change.user] = OK
        except KafkaError as error:
            outcomes[change.user] = Outcome.refused(error)
    planned = list(writes.values())
    return Plan(outcomes, planned, compare_written(image, planned))


def _plan_change(present: Mapping[ScramMechanism, ScramCredential], change: CredentialChange) -> Write:
    if not change.user:
        raise _unacceptable("Username must not be empty")
    if change.mechanism not in list(ScramMechanism):
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    mechanism = ScramMechanism(change.mechanism)
    credentials = dict(present)
    if change.password is not None:
        credentials[mechanism] = _derive(mechanism, change.password)
    elif credentials.pop(mechanism, None) is None:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    key = user_key(change.user)
    return Put(key, encode_user(credentials)) if credentials else Delete(key)


def _derive(mechanism: ScramMechanism, password: NewPassword) -> ScramCredential:
    iterations, salt, salted_password = password
    if iterations < ITERATIONS_MIN:
        raise _unacceptable(f"Too few iterations: at least {ITERATIONS_MIN} are needed")
    if iterations > ITERATIONS_MAX:
        raise _unacceptable(f"Too many iterations: at most {ITERATIONS_MAX} are allowed")
    if not salted_password:
        raise _unacceptable("The salted password must not be empty")
    algorithm = _HASHES[mechanism]
    client_key = hmac_digest(salted_password, b"Client Key", algorithm)
    stored_key = new_hash(algorithm, client_key).digest()
    return ScramCredential(iterations, salt, stored_key, hmac_digest(salted_password, b"Server Key", algorithm))


def _unacceptable(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, reason)
