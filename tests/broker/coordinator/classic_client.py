"""Requests of the classic protocol to a simulated shard, with what most tests do not care about filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from simulated_shard import SimulatedShard

from oncelog.broker.coordinator.group.common import Caller, Committer
from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
from oncelog.broker.coordinator.group.offsets import OffsetEntry, TopicSelection
from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.protocol.codec import encode
from oncelog.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from oncelog.protocol.messages.heartbeat import HeartbeatRequest
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from oncelog.protocol.messages.leave_group import MemberIdentity
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3000


def subscription(*topics: str) -> bytes:
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


class ClassicClients:
    """Any number of clients of one group coordinator."""

    def __init__(self, **settings: Any) -> None:
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": DELAY_MS, **settings})
        self.shard = SimulatedShard(lambda limit: GroupCoordinator(lambda: self.settings, batch_bytes_max=limit))
        self._ids = count(1)

    @property
    def coordinator(self) -> GroupCoordinator:
        coordinator: GroupCoordinator = self.shard.coordinator
        return coordinator

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
    ) -> Any:
        if protocols is None:
            protocols = {"range": subscription("t")}
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
        )
        caller = Caller(version, "client", "/127.0.0.1", str(next(self._ids)))
        return self.shard.run(lambda coordinator, now: coordinator.join(request, caller, now))

    def new_id(self, **options: Any) -> str:
        reply: JoinGroupResponse = self.join(**options)
        assert reply.error_code == 79
        return reply.member_id

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Any:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data)
                for member, data in (assignments or {}).items()
            ],
        )
        return self.shard.run(lambda coordinator, now: coordinator.sync(request, now))

    def heartbeat(
        self, member_id: str, generation: int, *, group_id: str = GROUP, instance_id: str | None = None
    ) -> int:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        reply = self.shard.run(lambda coordinator, now: coordinator.heartbeat(request, now))
        return int(reply.error_code)

    def leave(self, *members: str | MemberIdentity, group_id: str = GROUP) -> list[int]:
        identities = [
            member if isinstance(member, MemberIdentity) else MemberIdentity(member_id=member) for member in members
        ]
        reply = self.shard.run(lambda coordinator, now: coordinator.leave(group_id, identities, now))
        return [int(member.error_code) for member in reply.members]

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        group_id: str = GROUP,
        producer_id: int = -1,
        metadata: str = "",
        version: int = 9,
        retention_ms: int = -1,
    ) -> list[int]:
        committer = Committer(group_id, generation, member_id, instance_id, version)
        entries = [
            OffsetEntry(topic, partition, offset, metadata=metadata) for (topic, partition), offset in offsets.items()
        ]
        if producer_id >= 0:
            return self.shard.run(
                lambda coordinator, now: coordinator.commit_transactional_offsets(committer, entries, now),
                producer_id,
            )
        return self.shard.run(
            lambda coordinator, now: coordinator.commit_offsets(committer, entries, now, retention_ms=retention_ms)
        )

    def fetch(
        self,
        topics: Mapping[str, Sequence[int]] | None = None,
        *,
        group_id: str = GROUP,
        require_stable: bool = False,
    ) -> dict[tuple[str, int], int]:
        """Offsets by partition; below -1 the negated error code, -1 where there is none."""
        selection = None if topics is None else [TopicSelection(topic, parts) for topic, parts in topics.items()]
        fetched = self.shard.run(
            lambda coordinator, now: coordinator.fetch_offsets(
                Committer(group_id), selection, now, require_stable=require_stable
            )
        )
        return {
            (topic.topic, offset.partition): -offset.code
            if offset.code
            else (-1 if offset.committed is None else offset.committed.offset)
            for topic in fetched
            for offset in topic.offsets
        }

    def describe(self, group_id: str = GROUP) -> Any:
        return self.shard.run(lambda coordinator, now: coordinator.describe_classic(group_id, now))

    def stable(self, *assignments: bytes, **options: Any) -> list[str]:
        """A stable group with as many dynamic members as assignments; the first leads, the generation is 1."""
        ids = [self.new_id(**options) for _ in assignments]
        joins = [self.join(member_id, **options) for member_id in ids]
        self.shard.advance(2 * DELAY_MS)
        assert all(join.reply.generation_id == 1 for join in joins)
        self.sync(ids[0], 1, dict(zip(ids, assignments, strict=True)))
        for member_id in ids[1:]:
            assert not self.sync(member_id, 1).error_code
        return ids
