"""Drives a transaction coordinator as clients and the writer of markers do."""

from __future__ import annotations

from itertools import count
from typing import Any

from simulated_shard import SimulatedShard

from oncelog.broker.coordinator.contract import Refused, Result
from oncelog.broker.coordinator.txn.coordinator import TransactionCoordinator
from oncelog.broker.coordinator.txn.requests import (
    EndRequest,
    InitRequest,
    NeedsProducerId,
    TransactionSettings,
    WriteMarkers,
)
from oncelog.broker.coordinator.txn.state import ProducerIdentity, State, Transaction, transaction_record
from oncelog.protocol.errors import ErrorCode, KafkaError

TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 1000
T0, T1 = ("t", 0), ("t", 1)


class TransactionClients(SimulatedShard):
    """A shard with clients of transactional ids; markers are written when a test says so."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.effects: list[WriteMarkers] = []
        self.producer_ids = count(FIRST_PRODUCER_ID)
        super().__init__(lambda limit: TransactionCoordinator(settings or TransactionSettings(), None, limit))

    def state(self, transactional_id: str = "x") -> Transaction:
        transaction: Transaction = self.coordinator.describe(transactional_id)
        return transaction

    @property
    def written(self) -> list[tuple[State, int, int]]:
        """State, producer id and epoch of the records that the last operation wrote."""
        return [
            (State(record.value.transaction_status), record.value.producer_id, record.value.producer_epoch)
            for record in self.appended
            if record.value is not None
        ]

    # -- requests --------------------------------------------------------------------------------------------

    def init(
        self,
        transactional_id: str = "x",
        *,
        expected: ProducerIdentity | None = None,
        timeout_ms: int = TIMEOUT_MS,
        connection: int = 0,
    ) -> Any:
        request = InitRequest(transactional_id, timeout_ms, expected, connection)
        return self._with_producer_id(lambda coordinator, now, fresh: coordinator.init_producer_id(request, now, fresh))

    def add(
        self,
        producer: ProducerIdentity,
        *partitions: tuple[str, int],
        version: int = 0,
        connection: int = 0,
        transactional_id: str = "x",
    ) -> Any:
        return self.run(
            lambda coordinator, now: coordinator.add_partitions(
                transactional_id,
                producer,
                frozenset(partitions or (T0,)),
                now,
                client_version=version,
                connection=connection,
            )
        )

    def end(
        self,
        producer: ProducerIdentity,
        *,
        commit: bool = True,
        version: int = 0,
        connection: int = 0,
        transactional_id: str = "x",
    ) -> Any:
        request = EndRequest(transactional_id, producer, commit, version, connection)
        return self._with_producer_id(lambda coordinator, now, fresh: coordinator.end(request, now, fresh))

    def commit(self, producer: ProducerIdentity, **options: Any) -> Any:
        return self.end(producer, commit=True, **options)

    def abort(self, producer: ProducerIdentity, **options: Any) -> Any:
        return self.end(producer, commit=False, **options)

    def transact(self, producer: ProducerIdentity, *, version: int = 0, commit: bool = True) -> ProducerIdentity:
        """A whole transaction; how the producer goes on."""
        self.add(producer, version=version)
        waiting = self.end(producer, commit=commit, version=version)
        self.write_markers()
        identity: ProducerIdentity = waiting.reply
        return identity if version >= 2 else producer

    # -- markers ---------------------------------------------------------------------------------------------

    def write_markers(self) -> list[WriteMarkers]:
        """All that were asked for; afterwards `appended` has the records of the ends."""
        self.appended = []
        written, self.effects = self.effects, []
        for effect in written:
            self.markers_written(effect)
        return written

    def markers_written(self, effect: WriteMarkers) -> None:
        self._with_producer_id(
            lambda coordinator, now, fresh: coordinator.markers_written(effect, now, fresh), keep_appended=True
        )

    def restart(self) -> None:
        self.effects = []
        super().restart()

    def set_epoch(self, epoch: int, transactional_id: str = "x") -> ProducerIdentity:
        """Skip most of a producer's life: as if its last InitProducerId had given this epoch."""
        return self.write(self.state(transactional_id)._replace(producer_epoch=epoch)).identity

    def write(self, transaction: Transaction) -> Transaction:
        """Write a record past the coordinator, which reads it as one that it finds in a directory."""
        self._carry_out(Result(None, [transaction_record(transaction)]))
        return transaction

    def _with_producer_id(self, operation: Any, *, keep_appended: bool = False) -> Any:
        fresh: int | None = None
        while True:
            appended = self.appended if keep_appended else []
            try:
                reply = self.run(lambda coordinator, now, fresh=fresh: operation(coordinator, now, fresh))
            except NeedsProducerId:
                assert fresh is None, "asked for an id twice"
                fresh = next(self.producer_ids)
            else:
                self.appended = appended + self.appended
                return reply

    def _carry_out(self, result: Result[Any], producer_id: int = -1) -> Any:
        reply = super()._carry_out(result, producer_id)
        self.effects += result.effects
        return reply


def refusal(operation: Any) -> ErrorCode:
    """The code that a call is refused with."""
    try:
        operation()
    except KafkaError as error:
        return error.code
    raise AssertionError("it was not refused")


def code_of(reply: Any) -> ErrorCode:
    """The code of the refusal that a request got while it was parked."""
    assert isinstance(reply, Refused), reply
    return reply.error.code
