"""Fetch sessions (KIP-227): creation, increments, epochs, eviction, and what an incremental answer mentions."""

from __future__ import annotations

import pytest

from oncelog.broker.requests.fetch_sessions import FetchSession, FetchSessions, SessionPartition
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)


def request(
    session_id: int = 0,
    epoch: int = 0,
    partitions: tuple[int, ...] = (0,),
    forgotten: tuple[int, ...] = (),
    offset: int = 0,
) -> FetchRequest:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=p, fetch_offset=offset) for p in partitions])]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forgotten))] if forgotten else [],
    )


def opened(sessions: FetchSessions, *partitions: int) -> FetchSession:
    session = sessions.open(request(partitions=partitions), False, 0.0)
    assert session is not None
    return session


def code_of(sessions: FetchSessions, asked: FetchRequest, by_id: bool = False) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        sessions.open(asked, by_id, 0.0)
    return refused.value.code


def test_a_full_fetch_opens_a_session_and_increments_change_it() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions, 0, 1)
    assert session.session_id > 0
    again = sessions.open(request(session.session_id, 1, (2,), forgotten=(0,)), False, 0.0)
    assert again is session
    assert [key[1] for key in session.partitions] == [1, 2]
    moved = sessions.open(request(session.session_id, 2, (1,), offset=77), False, 0.0)
    assert moved is session
    assert session.partitions["t", 1].request.fetch_offset == 77


def test_an_unknown_session_and_a_wrong_epoch_are_refused() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions, 0)
    assert code_of(sessions, request(session.session_id + 1, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code_of(sessions, request(session.session_id, 5)) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_names_and_ids_cannot_be_mixed_in_one_session() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions, 0)
    assert code_of(sessions, request(session.session_id, 1), True) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_final_epoch_closes_the_session() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions, 0)
    assert sessions.open(request(session.session_id, -1), False, 0.0) is None
    assert len(sessions) == 0


def test_a_new_session_replaces_the_one_that_the_client_had() -> None:
    sessions = FetchSessions(10)
    first = opened(sessions, 0)
    second = sessions.open(request(first.session_id, 0), False, 0.0)
    assert second is not None
    assert second is not first
    assert len(sessions) == 1


def test_the_epoch_wraps_to_one() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions, 0)
    session.epoch = 2**31 - 1
    sessions.open(request(session.session_id, 2**31 - 1), False, 0.0)
    assert session.epoch == 1


def test_the_number_of_sessions_is_bounded_and_an_idle_one_gives_way() -> None:
    sessions = FetchSessions(2, eviction_seconds=120)
    first, second = opened(sessions, 0), opened(sessions, 0)
    assert sessions.open(request(), False, 10.0) is None
    sessions.open(request(first.session_id, 1), False, 100.0)
    third = sessions.open(request(), False, 130.0)
    assert third is not None
    assert code_of(sessions, request(second.session_id, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_whose_partitions_are_all_forgotten_ends() -> None:
    sessions = FetchSessions(10)
    session = opened(sessions, 0)
    sessions.open(request(session.session_id, 1, (), forgotten=(0,)), False, 0.0)
    assert len(sessions) == 0


def test_only_news_is_told() -> None:
    entry = SessionPartition(("t", 0), FetchPartition(partition=0))
    quiet = PartitionData(high_watermark=5, log_start_offset=0, records=b"")
    assert entry.is_news(quiet)
    entry.remember(quiet)
    assert not entry.is_news(quiet)
    assert entry.is_news(PartitionData(high_watermark=6, log_start_offset=0, records=b""))
    assert entry.is_news(PartitionData(high_watermark=5, log_start_offset=2, records=b""))
    assert entry.is_news(PartitionData(high_watermark=5, log_start_offset=0, records=b"x"))
    failed = PartitionData(error_code=3, high_watermark=-1, records=b"")
    entry.remember(failed)
    assert entry.is_news(failed)
    assert entry.is_news(quiet)


def test_a_partition_that_was_served_goes_to_the_end() -> None:
    session = opened(FetchSessions(10), 0, 1, 2)
    session.served(("t", 0))
    assert [key[1] for key in session.partitions] == [1, 2, 0]


def test_what_all_sessions_remember_together_is_bounded() -> None:
    sessions = FetchSessions(10, partitions_max=3)
    first, second = opened(sessions, 0, 1), opened(sessions, 0)
    assert sessions.open(request(), False, 0.0) is None
    assert code_of(sessions, request(second.session_id, 1, (1,))) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1
    sessions.open(request(first.session_id, 1, (), forgotten=(0,)), False, 0.0)
    assert sessions.open(request(partitions=(0, 1)), False, 0.0) is not None
