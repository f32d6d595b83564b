"""Apache Kafka reads what we encode, in every version of every message, and writes the same bytes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.reference.jars import missing
from conformance.reference.tools import java_command
from oncelog.protocol.codec import encode
from oncelog.protocol.schema import Message
from tests.protocol.declarations import EXAMPLES, MESSAGE_VERSIONS, name_of, sample, values

pytestmark = [pytest.mark.java, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

Recode = Callable[[type[Message], int, bytes], str]

PACKAGES = {
    "group_records": "org.apache.kafka.coordinator.group.generated",
    "share_group_records": "org.apache.kafka.coordinator.group.generated",
    "share_state_records": "org.apache.kafka.coordinator.share.generated",
    "streams_group_records": "org.apache.kafka.coordinator.group.generated",
    "transaction_records": "org.apache.kafka.coordinator.transaction.generated",
}


def java_class(message: type[Message]) -> str:
    package = PACKAGES.get(message.__module__.rpartition(".")[2], "org.apache.kafka.common.message")
    suffix = "Data" if message.__name__.endswith(("Request", "Response")) else ""
    return f"{package}.{message.__name__}{suffix}"


@pytest.fixture(scope="module")
def recode() -> Iterator[Recode]:
    command = java_command(str(Path(__file__).with_name("Recode.java")))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        send, receive = process.stdin, process.stdout

        def ask(message: type[Message], version: int, encoded: bytes) -> str:
            send.write(f"{java_class(message)} {version} {encoded.hex()}\n")
            send.flush()
            return receive.readline().strip()

        yield ask
        send.close()


@pytest.mark.parametrize(("message", "version"), MESSAGE_VERSIONS, ids=name_of)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_kafka_writes_the_same_bytes(recode: Recode, message: type[Message], version: int, data: st.DataObject) -> None:
    for value in (message(), sample(message, version), data.draw(values(message, version))):
        encoded = encode(value, version)
        assert recode(message, version, encoded) == encoded.hex()
