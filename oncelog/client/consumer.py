"""Reads partitions of one topic without a group: from a given start, to the end or for ever.

The checksum of every batch is checked, as Kafka's clients do (`check.crcs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oncelog.client.cluster import Backoff, Cluster
from oncelog.client.connection import Pending
from oncelog.client.errors import ClientError, DamagedBatch, known_code, missing_partition
from oncelog.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from oncelog.client.visible import iter_batches
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from oncelog.protocol.records.batch import BatchHeader, TimestampType, compute_crc
from oncelog.protocol.records.record import Record, iter_records

FETCH_SIZE_BYTES = 32 * 1024 * 1024
PARTITION_FETCH_SIZE_BYTES = 4 * 1024 * 1024
WAIT_MS = 500


class Start(NamedTuple):
    """Where to begin: `Start.earliest()`, `.latest()`, `.offset(n)`, `.tail(n)` or `.timestamp(ms)`."""

    kind: str
    number: int

    @classmethod
    def earliest(cls) -> Start:
        return cls("timestamp", EARLIEST)

    @classmethod
    def latest(cls) -> Start:
        return cls("timestamp", LATEST)

    @classmethod
    def timestamp(cls, timestamp_ms: int) -> Start:
        return cls("timestamp", timestamp_ms)

    @classmethod
    def offset(cls, offset: int) -> Start:
        return cls("offset", offset)

    @classmethod
    def tail(cls, count: int) -> Start:
        """The last `count` offsets of each partition."""
        return cls("tail", count)


class ConsumedRecord(NamedTuple):
    partition: int
    timestamp_type: TimestampType
    record: Record


class Consumer:
    """`positions` holds the next offset of each partition, `ends` the end of each as it was at the start."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        partitions: Sequence[int] | None = None,
        start: Start | None = None,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.isolation = isolation
        known = cluster.topic(topic).partitions
        for partition in partitions or ():
            if partition not in known:
                raise missing_partition(topic, partition, len(known))
        self.partitions = sorted(partitions or known)
        self.positions: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self._wanted: dict[int, int] = {}
        self._seek(start or Start.earliest())

    def _seek(self, start: Start) -> None:
        firsts, self.ends = self._offsets(EARLIEST), self._offsets(LATEST)
        if start.kind == "timestamp":
            # A time after the last record has no offset: what is written from now on comes after it.
            found = self._offsets(start.number)
            self._wanted = {p: found[p] if found[p] >= 0 else self.ends[p] for p in self.partitions}
        elif start.kind == "tail":
            self._wanted = {p: self.ends[p] - start.number for p in self.partitions}
        else:
            self._wanted = dict.fromkeys(self.partitions, start.number)
        # An offset beyond the end cannot be fetched yet; it is reached by reading, and skipping, what comes.
        self.positions = {p: min(max(self._wanted[p], firsts[p]), self.ends[p]) for p in self.partitions}

    def _offsets(self, timestamp: int) -> dict[int, int]:
        asked = {(self.topic, partition): timestamp for partition in self.partitions}
        found = list_offsets(self.cluster, asked, isolation=self.isolation)
        return {partition: found[self.topic, partition].offset for partition in self.partitions}

    def at_end(self, partition: int) -> bool:
        return self.positions[partition] >= self.ends[partition]

    # -- reading ---------------------------------------------------------------------------------------------

    def polls(self, *, follow: bool) -> Iterator[Iterator[ConsumedRecord]]:
        """One iterator of records per fetch; without `follow`, up to where the partitions ended before."""
        backoff = Backoff(self.cluster.timeout_ms)
        while wanted := [p for p in self.partitions if follow or not self.at_end(p)]:
            try:
                answers = self._fetch(wanted)
            except (ClientError, KafkaError) as error:
                if not self.cluster.may_pass(error) or not backoff.wait():
                    raise
                self.cluster.forget(self.topic)
                continue
            backoff = Backoff(self.cluster.timeout_ms)
            yield self._records(answers, follow)

    def records(self, *, follow: bool) -> Iterator[ConsumedRecord]:
        for poll in self.polls(follow=follow):
            yield from poll

    def _fetch(self, partitions: Sequence[int]) -> list[PartitionData]:
        by_leader: dict[int, list[int]] = {}
        for partition in partitions:
            by_leader.setdefault(self.cluster.leader_id(self.topic, partition), []).append(partition)
        pending = [self._begin_fetch(leader, group) for leader, group in by_leader.items()]
        found: list[PartitionData] = []
        for answer in [each.wait() for each in pending]:
            if answer.error_code:
                raise KafkaError(known_code(answer.error_code), f"fetching from {self.topic!r}")
            for topic_answer in answer.responses:
                found += topic_answer.partitions
        for data in found:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._go_to_start(data.partition_index)
            elif data.error_code:
                code = known_code(data.error_code)
                raise KafkaError(code, f"fetching from {self.topic}-{data.partition_index}")
        return [data for data in found if not data.error_code]

    def _begin_fetch(self, leader_id: int, partitions: Sequence[int]) -> Pending[FetchResponse]:
        topic = FetchTopic(
            topic=self.topic,
            topic_id=self.cluster.topic(self.topic).topic_id,
            partitions=[
                FetchPartition(
                    partition=partition,
                    fetch_offset=self.positions[partition],
                    partition_max_bytes=PARTITION_FETCH_SIZE_BYTES,
                )
                for partition in partitions
            ],
        )
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_SIZE_BYTES,
            isolation_level=self.isolation,
            topics=[topic],
        )
        return self.cluster.connection(leader_id).begin(request, FetchResponse)

    def _go_to_start(self, partition: int) -> None:
        """Retention removed what was to be read next."""
        found = list_offsets(self.cluster, {(self.topic, partition): EARLIEST}, isolation=self.isolation)
        self.positions[partition] = found[self.topic, partition].offset

    def _records(self, answers: Sequence[PartitionData], follow: bool) -> Iterator[ConsumedRecord]:
        for data in answers:
            partition = data.partition_index
            for header, batch in self._visible_batches(data):
                for record in iter_records(batch):
                    if record.offset < max(self.positions[partition], self._wanted[partition]):
                        continue
                    if not follow and record.offset >= self.ends[partition]:
                        break
                    yield ConsumedRecord(partition, header.timestamp_type, record)
                    self.positions[partition] = record.offset + 1
                self.positions[partition] = max(self.positions[partition], header.last_offset + 1)

    def _visible_batches(self, data: PartitionData) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Batches with records for the reader; passes the position over the others."""
        partition = data.partition_index
        complete = False
        for header, batch, visible in iter_batches(data):
            complete = True
            if header.crc != compute_crc(batch):
                raise DamagedBatch(self.topic, partition, header.base_offset, header.last_offset)
            if visible:
                yield header, batch
            else:
                self.positions[partition] = max(self.positions[partition], header.last_offset + 1)
        if data.records and not complete:
            raise ProtocolError(f"{self.topic}-{partition}: a fetch came without a whole batch")
