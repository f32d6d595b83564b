"""What is written into a directory before it is looked at: every codec, transactions of every fate, offsets."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from conformance.client import Record
from conformance.clients import open_client
from conformance.preparation import wait_for_end
from conformance.scenarios.groups import read
from conformance.scenarios.run import create

if TYPE_CHECKING:
    from conformance.client import Client, TransactionalProducer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FATES = ("commit", "abort", "timeout")
"""How the transaction ends that is open when the broker is exchanged."""

GROUP = "files-group"
COPIED = "files-copied"
_DAY_S = 24 * 3600
# Settings of topics are not in a directory of Kafka: who takes it over has the default retention.
TIME_MS = int(time.time()) // _DAY_S * _DAY_S * 1000
OPEN_TIMEOUT_MS = 20_000
LASTING_TIMEOUT_MS = 600_000


def topics() -> list[str]:
    return [*(f"files-{codec}" for codec in CODECS), *(f"files-{fate}" for fate in FATES), COPIED]


def create_topics(address: str) -> None:
    with closing(open_client("confluent", address)) as client:
        for topic in topics():
            create(client, topic, configs={"retention.ms": "-1"})


class Workload:
    """Writes, and keeps the producers of the open transactions, which go on with the next broker on that address."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stack = ExitStack()
        self._client = self._stack.enter_context(closing(open_client("confluent", address)))
        self.producers: dict[str, TransactionalProducer] = {}
        """By the fate of their open transactions."""

    def write(self) -> None:
        records = [
            Record(b"value %d " % index + b"x" * 500, b"key %d" % index, (("h", b"1"),), TIME_MS + index)
            for index in range(5)
        ]
        for codec in CODECS:
            self._client.produce(f"files-{codec}", records, codec=codec, acks="all")
        self._copy(self._client)
        for fate in FATES:
            topic = f"files-{fate}"
            timeout_ms = OPEN_TIMEOUT_MS if fate == "timeout" else LASTING_TIMEOUT_MS
            producer = self._client.open_producer(f"files-id-{fate}", timeout_ms=timeout_ms)
            self.producers[fate] = self._stack.enter_context(closing(producer))
            producer.init()
            for value, finish, end in ((b"committed", producer.commit, 2), (b"aborted", producer.abort, 4)):
                producer.begin()
                producer.send(topic, value)
                finish()
                wait_for_end(self._address, topic, end)

    def open_transactions(self) -> None:
        for fate, producer in self.producers.items():
            producer.begin()
            producer.send(f"files-{fate}", b"open")

    def end_transactions(self) -> None:
        self.producers["commit"].commit()
        self.producers["abort"].abort()

    def close(self) -> None:
        self._stack.close()

    @staticmethod
    def _copy(client: Client) -> None:
        """Offsets of a group, one committed by itself and one in a transaction."""
        with (
            closing(client.open_consumer("files-none", GROUP)) as consumer,
            closing(client.open_producer("files-id-copy")) as producer,
        ):
            read(consumer, 2)
            consumer.commit()
            producer.init()
            producer.begin()
            producer.send(COPIED, b"copied")
            producer.send_offset(consumer, "files-none", 4)
            producer.commit()
