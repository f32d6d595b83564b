"""Fetch sessions (KIP-227): a client names its partitions once and then sends and gets only what changed.

A session belongs to the broker's memory alone: when it is lost, the client is told (FETCH_SESSION_ID_NOT_FOUND)
and begins a new one. The number of sessions is bounded, and so is what all of them remember; when none is free
and none may be evicted, a client is served without a session, which costs it bytes but nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from oncelog.broker.base.ids import random_number
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_EPOCH_MAX = 2**31 - 1
PARTITIONS_MAX = 500_000
"""In all sessions together, since one request can name a million partitions, whether they exist or not."""

PartitionKey = tuple[bytes | str, int]
"""Topic id or, before version 13, topic name; and the partition's index."""


class SessionPartition:
    """What a client asked of one partition, and what it was last told about it."""

    __slots__ = ("key", "request", "sent_high_watermark", "sent_log_start_offset")

    def __init__(self, key: PartitionKey, request: FetchPartition) -> None:
        self.key = key
        self.request = request
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def is_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer has to mention the partition."""
        return bool(
            data.error_code
            or data.records
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start_offset
            or data.diverging_epoch.epoch >= 0
        )

    def remember(self, data: PartitionData) -> None:
        """An error is told again each time, until it is gone."""
        failed = bool(data.error_code)
        self.sent_high_watermark = -1 if failed else data.high_watermark
        self.sent_log_start_offset = -1 if failed else data.log_start_offset


class FetchSession:
    __slots__ = ("by_id", "epoch", "last_used", "partitions", "session_id")

    def __init__(self, session_id: int, by_id: bool, now_seconds: float) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.last_used = now_seconds
        self.partitions: OrderedDict[PartitionKey, SessionPartition] = OrderedDict()

    def update(self, request: FetchRequest, by_id: bool) -> None:
        for key, partition in requested_partitions(request, by_id):
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = SessionPartition(key, partition)
            else:
                known.request = partition
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if by_id else topic.topic
            for index in topic.partitions:
                self.partitions.pop((name, index), None)

    def served(self, key: PartitionKey) -> None:
        """Its turn is over: next time the others come first, so that none starves."""
        if key in self.partitions:
            self.partitions.move_to_end(key)


class FetchSessions:
    """All sessions, the least recently used first."""

    def __init__(self, count_max: int, eviction_seconds: float = 120.0, partitions_max: int = PARTITIONS_MAX) -> None:
        self._count_max = count_max
        self._eviction_seconds = eviction_seconds
        self._partitions_max = partitions_max
        self._partition_count = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, by_id: bool, now_seconds: float) -> FetchSession | None:
        """The session that a request belongs to, brought up to date; None for a fetch without one."""
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._remove(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return None
            return self._create(request, by_id, now_seconds)
        return self._continue(request, by_id, now_seconds)

    def _create(self, request: FetchRequest, by_id: bool, now_seconds: float) -> FetchSession | None:
        wanted = sum(len(topic.partitions) for topic in request.topics)
        if not wanted or self._partition_count + wanted > self._partitions_max or not self._make_place(now_seconds):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = random_number(bits=31)
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now_seconds)
        self._update(session, request, by_id)
        return session

    def _continue(self, request: FetchRequest, by_id: bool, now_seconds: float) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.last_used = now_seconds
        self._sessions.move_to_end(session.session_id)
        self._update(session, request, by_id)
        if self._partition_count > self._partitions_max:
            self._remove(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            self._remove(session.session_id)
        return session

    def _update(self, session: FetchSession, request: FetchRequest, by_id: bool) -> None:
        before = len(session.partitions)
        session.update(request, by_id)
        self._partition_count += len(session.partitions) - before

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def _make_place(self, now_seconds: float) -> bool:
        if len(self._sessions) < self._count_max:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_seconds - oldest.last_used < self._eviction_seconds:
            return False
        self._remove(oldest.session_id)
        return True


def requested_partitions(request: FetchRequest, by_id: bool) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            yield (name, partition.partition), partition


def sessionless_partitions(request: FetchRequest, by_id: bool) -> Collection[SessionPartition]:
    """A partition that is named twice is read once, as its last mention says."""
    wanted = {key: SessionPartition(key, part) for key, part in requested_partitions(request, by_id)}
    return wanted.values()
