"""What can go wrong between a client and its cluster. Each message is one line for people.

A refusal by a broker is a `protocol.errors.KafkaError`; the classes here are about reaching one at all.
"""

from __future__ import annotations

from oncelog.protocol.errors import ErrorCode


class ClientError(Exception):
    """The request got no answer, or none that could be used."""


class BrokerUnavailable(ClientError):
    """No connection came about, so nothing was sent."""


class ConnectionLost(ClientError):
    """The connection ended while an answer was due: the request may or may not have been carried out."""


class RequestTimeout(ClientError):
    """No answer came in time: the request may or may not have been carried out."""


class SecurityError(ClientError):
    """Broker and client do not trust each other, or a key store cannot be read: trying again does not help."""


class UnsupportedRequest(ClientError):
    """The broker does not have this API, or no version of it that we know."""


class UnknownTopic(ClientError):
    """The cluster has no such topic."""


class UnknownPartition(UnknownTopic):
    """The topic has no such partition."""


class DamagedBatch(ClientError):
    """Records came whose checksum does not match."""

    def __init__(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        super().__init__(
            f"the records {first_offset} to {last_offset} of {topic}-{partition} are damaged: their checksum does not "
            "match; check the broker's disk with oncelog verify-log"
        )
        self.partition = partition
        self.last_offset = last_offset


def missing_partition(topic: str, partition: int, count: int) -> UnknownPartition:
    have = "1 partition (0)" if count == 1 else f"{count} partitions (0 to {count - 1})"
    return UnknownPartition(f"partition {partition} does not exist; topic {topic!r} has {have}")


def known_code(code: int) -> ErrorCode:
    """A broker newer than this client may have codes that we cannot name."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
