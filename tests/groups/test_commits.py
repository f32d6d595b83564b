"""The members' book of commits: only what the broker has taken counts."""

from __future__ import annotations

from confluent_kafka import KafkaError, TopicPartition
from members import Commits

FAILED = KafkaError(KafkaError.ILLEGAL_GENERATION)


def test_a_commit_that_puts_an_offset_back_is_told() -> None:
    commits = Commits()
    assert commits.note(None, [TopicPartition("t", 0, 5), TopicPartition("t", 1, 3)]) == {}
    assert commits.note(None, [TopicPartition("t", 0, 4), TopicPartition("t", 1, 3)]) == {("t", 0): 5}
    assert commits.note(None, [TopicPartition("t", 0, 6)]) == {}


def test_a_commit_that_failed_has_neither_moved_an_offset_nor_put_it_back() -> None:
    commits = Commits()
    assert commits.note(FAILED, [TopicPartition("t", 0, 9)]) == {}
    assert commits.note(None, [TopicPartition("t", 0, 5)]) == {}
    assert commits.note(FAILED, [TopicPartition("t", 0, 4)]) == {}
