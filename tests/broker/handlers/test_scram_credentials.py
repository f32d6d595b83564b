"""Users come with AlterUserScramCredentials and are seen with DescribeUserScramCredentials, also after a restart."""

from __future__ import annotations

from pathlib import Path

from oncelog.broker.admin.users import USERS_PER_WRITE
from oncelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient

SHA_256, SHA_512 = 1, 2


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"secret"
    )


def alter(
    client: RawClient, *upsertions: ScramCredentialUpsertion, delete: tuple[tuple[str, int], ...] = ()
) -> dict[str, int]:
    deletions = [ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in delete]
    answer = client.call(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=list(upsertions)), 0)
    return {result.user: result.error_code for result in answer.results}


def described(client: RawClient, *names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    users = [UserName(name=name) for name in names] or None
    answer = client.call(DescribeUserScramCredentialsRequest(users=users), 0)
    assert answer.error_code == 0
    return {
        result.user: (result.error_code, [(info.mechanism, info.iterations) for info in result.credential_infos])
        for result in answer.results
    }


def test_users_come_and_go_and_outlive_the_broker(tmp_path: Path) -> None:
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        assert described(client) == {}
        assert alter(client, upsertion("a"), upsertion("b", SHA_512, 8192), upsertion("")) == {"a": 0, "b": 0, "": 93}
        assert alter(client, upsertion("a", SHA_512, 5000)) == {"a": 0}
        assert described(client, "b", "absent", "b", "a") == {
            "b": (92, []),
            "absent": (91, []),
            "a": (0, [(SHA_256, 4096), (SHA_512, 5000)]),
        }
        assert alter(client, delete=(("b", SHA_256), ("a", SHA_256))) == {"b": 91, "a": 0}
    broker.stop()
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        assert described(client) == {"a": (0, [(SHA_512, 5000)]), "b": (0, [(SHA_512, 8192)])}
        assert alter(client, delete=(("a", SHA_512), ("b", SHA_512))) == {"a": 0, "b": 0}
        assert described(client) == {}
    broker.stop()


def test_many_users_in_one_request(tmp_path: Path) -> None:
    """They are written some at a time; a user that comes twice, far apart, is still refused."""
    count = 2 * USERS_PER_WRITE + 1
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        users = [upsertion(f"user-{number}") for number in range(count)]
        outcomes = alter(client, *users, upsertion("user-0", SHA_512))
        assert outcomes.pop("user-0") == 92
        assert outcomes == {f"user-{number}": 0 for number in range(1, count)}
        assert described(client).keys() == outcomes.keys()
    broker.stop()


def test_a_very_long_name_is_answered(tmp_path: Path) -> None:
    """The message names the user, and must still fit into the answer."""
    name = "x" * 32767
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        assert described(client, name) == {name: (91, [])}
        assert described(client, name, name) == {name: (92, [])}
    broker.stop()
