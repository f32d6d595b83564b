"""What a topic holds, read without Spark: the evidence for tests, audit and demonstration.

Which records are aborted is worked out from the markers in the log itself, not from what the broker says about
aborted transactions, so that the broker's word can be held against it.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from oncelog.client.cluster import Cluster, TopicPartition
from oncelog.client.consumer import Consumer
from oncelog.client.errors import ClientError, known_code
from oncelog.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from oncelog.client.security.options import PLAINTEXT, SecurityOptions
from oncelog.client.transactions import TransactionAdmin
from oncelog.pipeline.verdict import Place, Seen
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from oncelog.protocol.primitives import StoredBytes
from oncelog.protocol.records.batch import iter_headers
from oncelog.protocol.records.control import ControlType, decode_control_key
from oncelog.protocol.records.record import iter_records

FETCH_SIZE_BYTES = 8 * 1024 * 1024
LOOK_SECONDS = 0.002


class LogFacts(NamedTuple):
    """What the log of a topic itself says, whatever its broker makes of it."""

    aborted: set[Place]
    """Each record that is followed by its producer's abort marker."""
    aborts_ms: list[int]
    """When transactions were aborted, by the abort markers; one for each partition."""
    producer_ids: set[int]
    """Of all transactional batches."""


def read_topic(bootstrap: str, topic: str, isolation: Isolation) -> list[Seen]:
    with Cluster(bootstrap) as cluster:
        records = Consumer(cluster, topic, isolation=isolation).records(follow=False)
        return [Seen(each.partition, each.record.offset, each.record.value or b"") for each in records]


def count_end(bootstrap: str, topic: str) -> int:
    """The sum of the end offsets of a topic, or 0 while its broker is away."""
    try:
        with Cluster(bootstrap, timeout_ms=5_000) as cluster:
            wanted = {(topic, partition): LATEST for partition in cluster.topic(topic).partitions}
            return sum(found.offset for found in list_offsets(cluster, wanted).values())
    except (ClientError, KafkaError):
        return 0


def wait_for_open_transaction(bootstrap: str, topic: str, seconds_max: float, over: Callable[[], bool]) -> bool:
    """Returns True as soon as the topic has records that no marker has decided upon yet.

    These are the records between its last stable offset and its end. False says that it is over, or took too long.
    """
    for cluster, wanted in _looks(bootstrap, topic, seconds_max, over):
        stable = list_offsets(cluster, wanted, isolation=Isolation.READ_COMMITTED)
        if any(stable[where].offset < end.offset for where, end in list_offsets(cluster, wanted).items()):
            return True
    return False


def wait_for_growth(bootstrap: str, topic: str, seconds_max: float, over: Callable[[], bool]) -> bool:
    """Returns True as soon as a record is appended to the topic."""
    before: int | None = None
    for cluster, wanted in _looks(bootstrap, topic, seconds_max, over):
        count = sum(end.offset for end in list_offsets(cluster, wanted).values())
        if before is not None and count > before:
            return True
        before = count
    return False


def _looks(
    bootstrap: str, topic: str, seconds_max: float, over: Callable[[], bool]
) -> Iterator[tuple[Cluster, dict[TopicPartition, int]]]:
    """Yields again and again, so that the caller can look at the ends of the topic, until it is over or time is up."""
    deadline = time.monotonic() + seconds_max
    with Cluster(bootstrap, timeout_ms=5_000) as cluster:
        wanted = {(topic, partition): LATEST for partition in cluster.topic(topic).partitions}
        while not over() and time.monotonic() < deadline:
            yield cluster, wanted
            time.sleep(LOOK_SECONDS)


def aborted_offsets(bootstrap: str, topic: str, security: SecurityOptions = PLAINTEXT) -> set[Place]:
    return read_log(bootstrap, topic, security).aborted


def read_log(bootstrap: str, topic: str, security: SecurityOptions = PLAINTEXT) -> LogFacts:
    facts = LogFacts(set(), [], set())
    with Cluster(bootstrap, security=security) as cluster:
        for partition in cluster.topic(topic).partitions:
            _read_partition(cluster, topic, partition, facts)
    return facts


def _read_partition(cluster: Cluster, topic: str, partition: int, facts: LogFacts) -> None:
    undecided: dict[int, list[int]] = {}
    for data in _raw_fetches(cluster, topic, partition):
        for position, header in iter_headers(data):
            batch = data[position : position + header.size_bytes]
            if not header.is_transactional:
                continue
            facts.producer_ids.add(header.producer_id)
            offsets = undecided.setdefault(header.producer_id, [])
            if not header.is_control:
                offsets += [record.offset for record in iter_records(batch)]
                continue
            if any(decode_control_key(record.key) == ControlType.ABORT for record in iter_records(batch)):
                facts.aborted.update((partition, offset) for offset in offsets)
                facts.aborts_ms.append(header.max_timestamp)
            offsets.clear()


def transactional_ids(bootstrap: str, producer_ids: set[int], security: SecurityOptions = PLAINTEXT) -> list[str]:
    """Whose they are, as far as the broker still knows it."""
    if not producer_ids:
        return []
    with Cluster(bootstrap, security=security) as cluster:
        listed = TransactionAdmin(cluster).list_transactions(producer_ids=sorted(producer_ids))
    return sorted({each.transactional_id for each in listed})


def _raw_fetches(cluster: Cluster, topic: str, partition: int) -> Iterator[memoryview]:
    where = (topic, partition)
    position = list_offsets(cluster, {where: EARLIEST})[where].offset
    end = list_offsets(cluster, {where: LATEST})[where].offset
    while position < end:
        data = cluster.retry(partial(_raw_fetch, cluster, topic, partition, position))
        yield data
        position = max(header.last_offset for _, header in iter_headers(data)) + 1


def _raw_fetch(cluster: Cluster, topic: str, partition: int, position: int) -> memoryview:
    """What comes from a place before the end; that nothing comes is an error, or the rest would pass for clean."""
    part = FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=FETCH_SIZE_BYTES)
    request = FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=FETCH_SIZE_BYTES, isolation_level=Isolation.READ_UNCOMMITTED,
        topics=[FetchTopic(topic=topic, topic_id=cluster.topic(topic).topic_id, partitions=[part])],
    )  # fmt: skip
    answer = cluster.connection(cluster.leader_id(topic, partition)).send(request, FetchResponse)
    # The answer to a client above its quota has no partitions.
    data = next((data for each in answer.responses for data in each.partitions), PartitionData())
    code = answer.error_code or data.error_code or (0 if data.records else ErrorCode.OFFSET_NOT_AVAILABLE)
    if code:
        cluster.forget(topic)
        raise KafkaError(known_code(code), f"{topic}-{partition} cannot be read at offset {position}")
    assert not isinstance(data.records, StoredBytes), "a decoder gives what came"
    return memoryview(data.records or b"")


# -- whole batches -------------------------------------------------------------------------------------------------


class CommittedReader(threading.Thread):
    """A read_committed reader beside the job: keeps what it was given, and where each of its fetches ended."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="committed-reader", daemon=True)
        self.seen: list[Seen] = []
        self.stops: dict[int, set[int]] = {}
        self.history: list[tuple[float, int]] = []
        """At which time it had been given how many records."""
        self._servers = bootstrap
        self._topic = topic
        self._positions: dict[int, int] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Cluster(self._servers, timeout_ms=5_000) as cluster:
                    self._read(cluster)
            except (ClientError, KafkaError):
                self._stopping.wait(0.2)

    def _read(self, cluster: Cluster) -> None:
        consumer = Consumer(cluster, self._topic, isolation=Isolation.READ_COMMITTED)
        consumer.positions.update(self._positions)
        for poll in consumer.polls(follow=True):
            self.seen += [Seen(each.partition, each.record.offset, each.record.value or b"") for each in poll]
            self.history.append((time.monotonic(), len(self.seen)))
            self._positions = dict(consumer.positions)
            for partition, position in self._positions.items():
                self.stops.setdefault(partition, set()).add(position)
            if self._stopping.is_set():
                return

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def batches_of_checkpoint(checkpoint: str | Path) -> list[dict[str, dict[str, int]]]:
    """Where the source ended in each batch, from Spark's log of offsets."""
    logs = sorted((path for path in Path(checkpoint, "offsets").iterdir() if path.name.isdigit()), key=_number)
    return [json.loads(path.read_text().splitlines()[-1]) for path in logs]


def _number(path: Path) -> int:
    return int(path.name)


def torn_batches(
    committed: Sequence[Seen], watched: dict[int, set[int]], topic: str, ends: Sequence[dict[str, dict[str, int]]]
) -> list[int]:
    """Batches of which a reader saw a part: a readable end fell between two records of one batch."""
    torn: set[int] = set()
    batch_of = _BatchFinder(topic, ends)
    for partition, stops in watched.items():
        records = sorted((seen.offset, seen.value) for seen in committed if seen.partition == partition)
        offsets = [offset for offset, _ in records]
        for stop in stops:
            after = bisect_left(offsets, stop)
            if 0 < after < len(records):
                last, first = (batch_of(records[place][1].decode()) for place in (after - 1, after))
                if last == first:
                    torn.add(first)
    return sorted(torn)


class _BatchFinder:
    """Which batch read the input record `PARTITION:OFFSET`."""

    def __init__(self, topic: str, ends: Sequence[dict[str, dict[str, int]]]) -> None:
        partitions = {partition for end in ends for partition in end[topic]}
        self._ends = {partition: [end[topic].get(partition, 0) for end in ends] for partition in partitions}

    def __call__(self, source: str) -> int:
        partition, _, offset = source.partition(":")
        return bisect_right(self._ends[partition], int(offset))
