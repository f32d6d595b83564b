"""Random lives of producers of both generations against one coordinator, with zombies, timeouts, lost answers,
EndTxn requests that arrive again later, slow markers and restarts. Whatever happens:

- a transaction is decided once, and only as its client asked or, without that, by an abort;
- what a client was told that it committed is visible at that moment, and nothing else ever is;
- an identity (producer id and epoch) belongs to one producer, and identities never go back;
- a producer that was replaced writes nothing any more;
- nothing stays open for ever.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from transaction_client import TransactionClients

from oncelog.broker.coordinator.contract import Refused
from oncelog.broker.coordinator.txn.requests import EndRequest, WriteMarkers
from oncelog.broker.coordinator.txn.state import PREPARED, ProducerIdentity, State
from oncelog.protocol.errors import ErrorCode, KafkaError

IDS = ("a", "b")
PARTITIONS = (("t", 0), ("t", 1), ("t", 2))
TIMEOUT_MS = 1000
CLIENTS_MAX = 6
GOOD_TIME_MS = 10 * TIMEOUT_MS
PICK = st.integers(min_value=0, max_value=5)


class Txn:
    """One transaction of a client, with what the client has asked for."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.asked: bool | None = None
        self.records = 0


class Client:
    def __init__(self, transactional_id: str, version: int, connection: int) -> None:
        self.transactional_id = transactional_id
        self.version = version
        self.connection = connection
        self.identity: ProducerIdentity | None = None
        self.init: Any = None
        """A parked InitProducerId."""
        self.end: Any = None
        """A parked EndTxn."""
        self.txn = Txn(self)
        self.is_fenced = False

    @property
    def is_ready(self) -> bool:
        return self.identity is not None and self.init is None and not self.is_fenced


class PartitionLog:
    """What a partition's leader keeps of producers."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.open: dict[int, list[Txn]] = {}
        self.visible: list[Txn] = []
        self.aborted: list[Txn] = []

    def append(self, producer: ProducerIdentity, txn: Txn) -> None:
        assert producer.epoch >= self.epochs.get(producer.producer_id, 0), "the coordinator let a zombie pass"
        self.epochs[producer.producer_id] = producer.epoch
        self.open.setdefault(producer.producer_id, []).append(txn)

    def mark(self, marker: WriteMarkers) -> None:
        if marker.producer_epoch < self.epochs.get(marker.producer_id, 0):
            return
        self.epochs[marker.producer_id] = marker.producer_epoch
        ended = self.open.pop(marker.producer_id, [])
        assert len({id(txn) for txn in ended}) <= 1, "records of two transactions ended together"
        if marker.commit:
            assert all(txn.asked is True for txn in ended), "committed without having been asked to"
            self.visible += ended
        else:
            self.aborted += ended


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shard = TransactionClients()
        self.logs = {partition: PartitionLog() for partition in PARTITIONS}
        self.clients: list[Client] = []
        self.sent: list[tuple[EndRequest, Txn]] = []
        self.owners: dict[ProducerIdentity, Client] = {}
        self.newest: dict[str, Client] = {}
        self.markers: dict[WriteMarkers, set[tuple[str, int]]] = {}
        """Partitions that still want a marker."""
        self.connections = 0
        self.seen = 0

    # -- clients ---------------------------------------------------------------------------------------------

    @initialize()
    def two_producers(self) -> None:
        self.start("a", 0)
        self.start("b", 2)

    @rule(transactional_id=st.sampled_from(IDS), version=st.sampled_from([0, 2]))
    def start(self, transactional_id: str, version: int) -> None:
        if len(self.clients) == CLIENTS_MAX:
            return
        client = Client(transactional_id, version, self._connect())
        self.clients.append(client)
        self._receive_init(
            client,
            self.shard.init(transactional_id, timeout_ms=TIMEOUT_MS, connection=client.connection),
        )

    @rule(pick=PICK, partition=st.sampled_from(PARTITIONS))
    def write(self, pick: int, partition: tuple[str, int]) -> None:
        client = self._pick(pick)
        if client is None or client.txn.asked is not None:
            return
        assert client.identity is not None
        try:
            self.shard.add(
                client.identity,
                partition,
                version=client.version,
                connection=client.connection,
                transactional_id=client.transactional_id,
            )
        except KafkaError as error:
            self._refused(client, error)
            return
        assert self.newest[client.transactional_id] is client, "a producer that was replaced may still write"
        self.logs[partition].append(client.identity, client.txn)
        client.txn.records += 1

    @rule(pick=PICK, commit=st.booleans(), answer_is_lost=st.booleans())
    def end(self, pick: int, commit: bool, answer_is_lost: bool) -> None:
        client = self._pick(pick)
        if client is not None and client.txn.asked is None and client.txn.records:
            client.txn.asked = commit
            self._send_end(client)
            if answer_is_lost:
                self.ask_again_on_a_new_connection(pick)

    @rule(pick=PICK, partitions=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3), lost=st.booleans())
    def commit_and_begin_the_next(self, pick: int, partitions: list[tuple[str, int]], lost: bool) -> None:
        """The usual course, which chance alone would rarely find."""
        for partition in partitions:
            self.write(pick, partition)
        self.end(pick, True, lost)
        self.write_all_markers()
        self.write(pick, partitions[0])

    @rule(pick=PICK)
    def ask_again_on_a_new_connection(self, pick: int) -> None:
        client = self._pick(pick)
        if client is not None and client.txn.asked is not None:
            client.connection = self._connect()
            self._send_end(client)

    @rule(pick=PICK)
    def recover(self, pick: int) -> None:
        """The client gives up its transaction and asks for another epoch (KIP-360)."""
        client = self._pick(pick)
        if client is None or client.txn.asked is not None:
            return
        try:
            reply = self.shard.init(
                client.transactional_id,
                expected=client.identity,
                timeout_ms=TIMEOUT_MS,
                connection=client.connection,
            )
        except KafkaError as error:
            self._refused(client, error)
            return
        client.txn.asked = False
        self._receive_init(client, reply)

    @rule(pick=st.integers(min_value=0, max_value=3))
    def an_old_end_arrives_again(self, pick: int) -> None:
        if not self.sent:
            return
        recent = self.sent[-4:]
        request, txn = recent[pick % len(recent)]
        client = txn.client
        if request.client_version < 2 and request.connection == client.connection:
            return
        decided = len(self.shard.log)
        try:
            self.shard.end(
                request.producer,
                commit=request.commit,
                version=request.client_version,
                connection=request.connection,
                transactional_id=request.transactional_id,
            )
        except KafkaError:
            return
        if len(self.shard.log) > decided:
            assert client.txn is txn, "a transaction was ended by the EndTxn of another"

    # -- the world -------------------------------------------------------------------------------------------

    @rule(pick=PICK, which=PICK)
    def write_a_marker(self, pick: int, which: int) -> None:
        self._take_effects()
        if not self.markers:
            return
        effect = list(self.markers)[pick % len(self.markers)]
        remaining = self.markers[effect]
        if not self.shard.coordinator.awaits(effect):
            del self.markers[effect]
            return
        if remaining:
            partition = sorted(remaining)[which % len(remaining)]
            remaining.discard(partition)
            self.logs[partition].mark(effect)
        if not remaining:
            del self.markers[effect]
            self.shard.markers_written(effect)
        self._receive_all()

    @rule()
    def write_all_markers(self) -> None:
        self._take_effects()
        while self.markers:
            self.write_a_marker(0, 0)

    @rule(duration_ms=st.sampled_from([1, TIMEOUT_MS // 2, TIMEOUT_MS]))
    def time_passes(self, duration_ms: int) -> None:
        self.shard.advance(duration_ms)

    @rule()
    def restart(self) -> None:
        self.shard.restart()
        self.markers.clear()
        # Connections die with the process, and what was under way on them. Version 0 has to rely on that.
        self.sent = [(request, txn) for request, txn in self.sent if request.client_version >= 2]
        for client in self.clients:
            if client.init is not None:
                # Its answer will never come. If it had no identity yet, nobody will miss it.
                client.init = None
                client.is_fenced = True
            if client.end is not None:
                client.connection = self._connect()
                self._send_end(client)

    # -- what must hold --------------------------------------------------------------------------------------

    @invariant()
    def every_decision_stands(self) -> None:
        former: dict[str, Any] = getattr(self, "_former", {})
        self._former = former
        for offset in range(self.seen, len(self.shard.log)):
            key, value, _ = self.shard.log[offset]
            record = self.shard.coordinator.decode(key, value)
            if record.value is None:
                continue
            state = State(record.value.transaction_status)
            identity = (record.value.producer_id, record.value.producer_epoch)
            before = former.get(record.key.transactional_id)
            if before is not None:
                state_before, identity_before = before
                if state_before in PREPARED:
                    assert state == state_before + 2, "a decision did not stand"
                assert identity >= identity_before, "an identity went back"
            former[record.key.transactional_id] = (state, identity)
        self.seen = len(self.shard.log)

    @invariant()
    def nothing_is_both_visible_and_aborted(self) -> None:
        visible = {id(txn) for log in self.logs.values() for txn in log.visible}
        aborted = {id(txn) for log in self.logs.values() for txn in log.aborted}
        assert not visible & aborted

    def teardown(self) -> None:
        for _ in range(3):
            self.write_all_markers()
            self.shard.advance(GOOD_TIME_MS)
        self.every_decision_stands()
        self.nothing_is_both_visible_and_aborted()
        assert not any(log.open for log in self.logs.values()), "a transaction hangs"

    # -- helpers ---------------------------------------------------------------------------------------------

    def _pick(self, pick: int) -> Client | None:
        ready = [client for client in self.clients if client.is_ready]
        return ready[pick % len(ready)] if ready else None

    def _connect(self) -> int:
        self.connections += 1
        return self.connections

    def _take_effects(self) -> None:
        for effect in self.shard.effects:
            self.markers.setdefault(effect, set(effect.partitions))
        self.shard.effects = []

    def _send_end(self, client: Client) -> None:
        assert client.identity is not None
        assert client.txn.asked is not None
        request = EndRequest(
            client.transactional_id, client.identity, client.txn.asked, client.version, client.connection
        )
        self.sent.append((request, client.txn))
        try:
            reply = self.shard.end(
                client.identity,
                commit=client.txn.asked,
                version=client.version,
                connection=client.connection,
                transactional_id=client.transactional_id,
            )
        except KafkaError as error:
            self._refused_end(client, error)
        else:
            self._receive_end(client, reply)

    def _receive_all(self) -> None:
        for client in self.clients:
            if client.init is not None and client.init.done:
                waiting, client.init = client.init, None
                self._receive_init(client, waiting.reply)
            if client.end is not None and client.end.done:
                waiting, client.end = client.end, None
                self._receive_end(client, waiting.reply)

    def _receive_init(self, client: Client, reply: Any) -> None:
        if isinstance(reply, Refused):
            client.is_fenced = True
        elif isinstance(reply, ProducerIdentity):
            self._granted(client, reply)
            self.newest[client.transactional_id] = client
            client.txn = Txn(client)
        else:
            client.init = reply

    def _receive_end(self, client: Client, reply: Any) -> None:
        if isinstance(reply, Refused):
            self._refused_end(client, reply.error)
        elif isinstance(reply, ProducerIdentity):
            ended = sum(log.visible.count(client.txn) for log in self.logs.values())
            assert ended == (client.txn.records if client.txn.asked else 0), "told before it was so"
            assert not any(client.txn in txns for log in self.logs.values() for txns in log.open.values())
            if client.version >= 2:
                self._granted(client, reply)
            client.txn = Txn(client)
        else:
            client.end = reply

    def _refused(self, client: Client, error: KafkaError) -> None:
        if error.code != ErrorCode.CONCURRENT_TRANSACTIONS:
            assert error.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            client.is_fenced = True

    def _refused_end(self, client: Client, error: KafkaError) -> None:
        client.end = None
        if error.code == ErrorCode.TRANSACTION_ABORTABLE:
            assert client.txn.asked
            client.txn.asked = False
            self._send_end(client)
        elif error.code != ErrorCode.CONCURRENT_TRANSACTIONS:
            # After a restart nobody remembers that it was the timeout; then the state is all that can be said.
            fatal = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE)
            assert error.code in fatal
            assert (
                client.txn.asked is False
                or not any(client.txn in log.visible for log in self.logs.values())
                or (self.newest[client.transactional_id] is not client)
            ), "a commit that took place was refused"
            client.is_fenced = True

    def _granted(self, client: Client, identity: ProducerIdentity) -> None:
        client.identity = identity
        assert self.owners.setdefault(identity, client) is client, "two producers have the same identity"


Transactions.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
test_transactions = Transactions.TestCase
