from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.broker.handlers.alter_partition_reassignments import error_reply, handle
from oncelog.broker.metadata.controller import NewTopic
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.broker.handlers.config_services import context_of, over_the_wire
from tests.broker.metadata.images import cluster, with_topics


def request(*moves: tuple[int, list[int] | None], **options: Any) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in moves]
    topics = [ReassignableTopic(name="t", partitions=partitions)] if moves else []
    return AlterPartitionReassignmentsRequest(topics=topics, **options)


def codes(answer: AlterPartitionReassignmentsResponse) -> list[int]:
    return [part.error_code for topic in over_the_wire(answer, 1).responses for part in topic.partitions]


@pytest.fixture
def context() -> Any:
    image = with_topics(cluster(), NewTopic("t", 2))
    return context_of(SimpleNamespace(metadata=SimpleNamespace(image=image)), 1)


def test_each_partition_has_its_answer(context: Any) -> None:
    answer = handle(request((0, [1]), (1, None), (1, [9]), (2, [1])), context)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert codes(answer) == [
        ErrorCode.NONE,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize("allowed", [True, False])
def test_the_answer_repeats_whether_the_factor_may_change(context: Any, allowed: bool) -> None:
    answer = over_the_wire(handle(request((0, [1]), allow_replication_factor_change=allowed), context), 1)
    assert answer.allow_replication_factor_change is allowed
    assert codes(answer) == [0]


def test_no_topics(context: Any) -> None:
    answer = handle(request(), context)
    assert (answer.error_code, answer.error_message, answer.responses) == (0, "", [])


def test_a_deadline_that_is_over(context: Any) -> None:
    asked = request((0, [1]), (1, [1]), timeout_ms=-1)
    with pytest.raises(KafkaError) as caught:
        handle(asked, context)
    answer = error_reply(asked, caught.value, context)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert codes(answer) == [ErrorCode.REQUEST_TIMED_OUT] * 2


def test_a_very_long_name_is_answered(context: Any) -> None:
    """The message names the topic, and must still fit into the answer."""
    asked = request((0, [1]))
    asked.topics[0].name = "x" * 32767
    assert codes(handle(asked, context)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
