"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from oncelog.protocol.messages.describe_groups import DescribedGroupMember
from oncelog.protocol.messages.group_records import MemberMetadata

_FIXED_BYTES_MAX = 64
"""Lengths and numbers of a member in a record."""


def utf8_bytes_max(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


class ClassicMember:
    """`protocols` has the member's metadata by protocol name, in its order of preference. After a restart it has
    only the protocol that the group had chosen, since no other is written to the log."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "record_bytes_max",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Mapping[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """It has not been in a generation yet."""
        self.record_bytes_max = self._measure()
        """What the member takes in the record of its group, whichever protocol is chosen."""

    def set_protocols(self, protocols: Mapping[str, bytes]) -> None:
        self.protocols = protocols
        self.record_bytes_max = self._measure()

    def _measure(self) -> int:
        texts = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        metadata_bytes = max(map(len, self.protocols.values()), default=0)
        return sum(map(utf8_bytes_max, texts)) + metadata_bytes + len(self.assignment) + _FIXED_BYTES_MAX

    def has_protocols(self, protocols: Mapping[str, bytes]) -> bool:
        """The same ones, in the same order."""
        return list(protocols.items()) == list(self.protocols.items())

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name in self.protocols if name in candidates)

    def record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.protocols[protocol],
            assignment=assignment,
        )

    @staticmethod
    def from_record(record: MemberMetadata, protocol: str) -> ClassicMember:
        timeout_ms = record.rebalance_timeout
        return ClassicMember(
            record.member_id,
            instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=record.session_timeout if timeout_ms == -1 else timeout_ms,
            session_timeout_ms=record.session_timeout,
            protocols={protocol: record.subscription},
            assignment=record.assignment,
        )

    def describe(self, protocol: str | None) -> DescribedGroupMember:
        """Metadata and assignment only where a protocol says how to understand them."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.protocols[protocol],
            member_assignment=b"" if protocol is None else self.assignment,
        )
