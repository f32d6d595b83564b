"""Many clients doing anything in any order: what must hold of groups and offsets whatever happens.

The clients are as honest as real ones: a leader hands out each partition once. Everything else is chance: when they
join, sync, commit, leave or fall silent, when time passes, when transactions end, when the broker restarts.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from classic_client import DELAY_MS, REBALANCE_MS, SESSION_MS, ClassicClients
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from simulated_shard import Waiting

from oncelog.broker.coordinator.contract import CoordinatorRecord
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.committed_offsets import TopicOffsets
from oncelog.broker.coordinator.record_codec import encode_record
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.group_records import GroupMetadataKey
from oncelog.protocol.messages.join_group import JoinGroupResponse

PARTITION_COUNT = 4
GROUPS = ("g", "h")
CLIENTS = range(5)
"""Two dynamic and two static members of one group, and one client that has another group for itself."""
PRODUCERS = range(2)


class Client:
    """What a consumer knows about itself."""

    def __init__(self, index: int) -> None:
        self.group_id = GROUPS[index // 4]
        self.instance_id = f"static-{index}" if index in (2, 3) else None
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.life = 0
        """How often the group had been deleted when this client joined it: a group that is made anew begins with
        generation 1. While a client waits for an answer its group has a member and is not deleted."""
        self.generation = -1
        self.joining: Waiting | None = None
        self.syncing: Waiting | None = None
        self.members: list[str] = []


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clients = ClassicClients()
        self.consumers = [Client(index) for index in CLIENTS]
        self.owners: dict[tuple[str, int, int, int], str] = {}
        """Who was given a partition, by group, its life, generation and partition."""
        self.committed: dict[tuple[str, int], int] = {}
        self.pending: dict[int, dict[tuple[str, int], int]] = {}
        self.next_offset = 0

    # -- what clients do -------------------------------------------------------------------------------------

    @rule(index=st.sampled_from(CLIENTS))
    def join(self, index: int) -> None:
        client = self.consumers[index]
        self._look(client)
        client.syncing = None
        client.life = self._deletion_count(client.group_id)
        for _ in range(2):
            reply = self.clients.join(client.member_id, group_id=client.group_id, instance_id=client.instance_id)
            self._joined(client, reply)
            if isinstance(reply, Waiting) or reply.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break

    @rule(present=st.sets(st.sampled_from(CLIENTS), min_size=1), forgetful=st.booleans())
    def rebalance(self, present: set[int], forgetful: bool) -> None:
        """Some clients go through a rebalance as it should be, while the others do nothing."""
        for index in sorted(present):
            self.join(index)
        self.clients.shard.advance(2 * DELAY_MS)
        for index in sorted(present):
            self.sync(index, forgetful)

    @rule(index=st.sampled_from(CLIENTS), forgetful=st.booleans())
    def sync(self, index: int, forgetful: bool) -> None:
        client = self.consumers[index]
        self._look(client)
        assignments = {}
        if client.members:
            members = client.members[:-1] if forgetful and len(client.members) > 1 else client.members
            for position, member in enumerate(members):
                assignments[member] = bytes(range(position, PARTITION_COUNT, len(members)))
        try:
            reply = self.clients.sync(
                client.member_id,
                client.generation,
                assignments,
                group_id=client.group_id,
                instance_id=client.instance_id,
            )
        except KafkaError as error:
            self._refused(client, error.code)
        else:
            if isinstance(reply, Waiting):
                client.syncing = reply
            else:
                self._assigned(client, reply)

    @rule(index=st.sampled_from(CLIENTS))
    def heartbeat(self, index: int) -> None:
        client = self.consumers[index]
        self._look(client)
        try:
            self.clients.heartbeat(
                client.member_id, client.generation, group_id=client.group_id, instance_id=client.instance_id
            )
        except KafkaError as error:
            self._refused(client, error.code)

    @rule(index=st.sampled_from(CLIENTS))
    def leave(self, index: int) -> None:
        client = self.consumers[index]
        self._look(client)
        if client.member_id:
            self.clients.leave(client.member_id, group_id=client.group_id)
        client.forget()

    @rule(index=st.sampled_from(CLIENTS))
    def die(self, index: int) -> None:
        """A static member comes back without its member id; a dynamic one is somebody else."""
        self.consumers[index].forget()

    @rule(index=st.sampled_from(CLIENTS), partition=st.sampled_from(range(PARTITION_COUNT)))
    def commit(self, index: int, partition: int) -> None:
        client = self.consumers[index]
        self._look(client)
        self.next_offset += 1
        try:
            codes = self.clients.commit(
                {("t", partition): self.next_offset},
                member_id=client.member_id,
                generation=client.generation,
                instance_id=client.instance_id if client.generation >= 0 else None,
                group_id=client.group_id,
            )
        except KafkaError:
            return
        assert codes == [0]
        self.committed[client.group_id, partition] = self.next_offset
        # A commit of a transaction that comes to its end later, but was made before, does not undo this one.
        for offsets in self.pending.values():
            offsets.pop((client.group_id, partition), None)

    @rule(
        index=st.sampled_from(CLIENTS),
        producer_id=st.sampled_from(PRODUCERS),
        partition=st.sampled_from(range(PARTITION_COUNT)),
    )
    def commit_in_transaction(self, index: int, producer_id: int, partition: int) -> None:
        client = self.consumers[index]
        self._look(client)
        self.next_offset += 1
        try:
            self.clients.commit(
                {("t", partition): self.next_offset},
                producer_id=producer_id,
                member_id=client.member_id,
                generation=client.generation,
                instance_id=client.instance_id if client.generation >= 0 else None,
                group_id=client.group_id,
            )
        except KafkaError:
            return
        self.pending.setdefault(producer_id, {})[client.group_id, partition] = self.next_offset

    @rule(producer_id=st.sampled_from(PRODUCERS), committed=st.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.clients.shard.end_transaction(producer_id, committed)
        offsets = self.pending.pop(producer_id, {})
        if committed:
            for place, offset in offsets.items():
                self.committed[place] = max(offset, self.committed.get(place, -1))

    # -- what happens to them --------------------------------------------------------------------------------

    @rule(duration_ms=st.sampled_from([1, DELAY_MS, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, duration_ms: int) -> None:
        self.clients.shard.advance(duration_ms)

    @rule()
    def restart(self) -> None:
        self.clients.shard.restart()
        for client in self.consumers:
            client.joining = client.syncing = None

    # -- what must hold --------------------------------------------------------------------------------------

    @invariant()
    def offsets_are_what_was_committed_last(self) -> None:
        for group_id in GROUPS:
            expected = {
                ("t", partition): offset for (group, partition), offset in self.committed.items() if group == group_id
            }
            assert self.clients.fetch(group_id=group_id) == expected
            stable = self.clients.fetch({"t": range(PARTITION_COUNT)}, group_id=group_id, require_stable=True)
            for partition in range(PARTITION_COUNT):
                pends = any((group_id, partition) in offsets for offsets in self.pending.values())
                unstable = stable["t", partition] == -ErrorCode.UNSTABLE_OFFSET_COMMIT
                # One that a later commit overtook may still pend in the log.
                assert unstable or not pends

    @invariant()
    def the_log_has_all_that_must_survive(self) -> None:
        shard = self.clients.shard
        rebuilt = shard.rebuilt()
        assert _persistent(rebuilt) == _persistent(shard.coordinator)
        for group in shard.coordinator._groups:
            if group.state_name in ("Stable", "Empty") and group.protocol_type:
                assert _generation(rebuilt._groups.get(group.group_id)) == _generation(group)

    @invariant()
    def groups_are_consistent(self) -> None:
        for group in self.clients.coordinator._groups:
            assert set(group.static_members.values()) <= set(group.members)
            assert group.awaiting_join | group.awaiting_sync | group.pending_sync <= set(group.members)
            assert not group.pending_members & set(group.members)
            assert group.leader_id in group.members if group.members else group.leader_id is None
            assert bool(group.members) != group.is_empty or group.state_name == "PreparingRebalance"
            for member_id in group.awaiting_join:
                assert ("join", group.group_id, member_id) in self.clients.shard.parked
            if group.state_name == "PreparingRebalance":
                assert ("classic-join", group.group_id) in self.clients.shard.timers

    # -- what clients learn ----------------------------------------------------------------------------------

    def _look(self, client: Client) -> None:
        """Take in the answers that have come."""
        if client.joining is not None and client.joining.done:
            reply, client.joining = client.joining.reply, None
            self._joined(client, reply)
        if client.syncing is not None and client.syncing.done:
            reply, client.syncing = client.syncing.reply, None
            self._assigned(client, reply)

    def _deletion_count(self, group_id: str) -> int:
        """As the log has it: empty groups without offsets are deleted from time to time."""
        tombstone = encode_record(CoordinatorRecord(GroupMetadataKey(group=group_id), None))
        return sum((key, value) == tombstone for key, value, _ in self.clients.shard.log)

    def _joined(self, client: Client, reply: JoinGroupResponse | Waiting) -> None:
        client.joining = None
        if isinstance(reply, Waiting):
            client.joining = reply
            return
        if reply.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.forget()
            return
        client.member_id = reply.member_id or client.member_id
        if not reply.error_code:
            client.generation = reply.generation_id
            client.members = [] if reply.skip_assignment else [member.member_id for member in reply.members]

    def _assigned(self, client: Client, reply: Any) -> None:
        if reply.error_code:
            self._refused(client, reply.error_code)
            return
        for partition in reply.assignment:
            place = client.group_id, client.life, client.generation, partition
            owner = self.owners.setdefault(place, _identity(client))
            assert owner == _identity(client), "two members own a partition in the same generation"

    def _refused(self, client: Client, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            client.forget()


def _identity(client: Client) -> str:
    return client.instance_id or client.member_id


def _persistent(coordinator: Any) -> Any:
    """Without ages, which start anew from the newest record when a log is loaded."""
    store = coordinator._offsets._store
    pending = {
        group: {producer_id: _ageless(topics) for producer_id, topics in transactions.items()}
        for group, transactions in store._pending.items()
    }
    return {group: _ageless(topics) for group, topics in store._groups.items()}, pending, store._pending_groups


def _ageless(topics: TopicOffsets) -> Any:
    return {
        (topic, partition): offset._replace(committed_ms=0)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def _generation(group: ClassicGroup) -> Any:
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader_id,
        group.static_members,
        group._subscribed_topics,
        {
            member.member_id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.assignment,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.protocols[group.protocol or ""],
            )
            for member in group.members.values()
        },
    )


Groups.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestGroups = Groups.TestCase


def test_the_model_knows_that_a_deleted_group_begins_with_generation_1_again() -> None:
    model = Groups()
    for index in (0, 1):
        model.rebalance({index}, forgetful=False)
        assert model.consumers[index].generation == 1
        model.leave(index)
        while model.clients.coordinator._groups.get("g") is not None:
            model.time_passes(REBALANCE_MS)
    assert {place[1] for place in model.owners} == {0, 1}
