from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.broker.base.turns import Turns
from oncelog.broker.handlers.alter_replica_log_dirs import error_reply, handle
from oncelog.broker.metadata.controller import NewTopic
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tests.broker.handlers.config_services import context_of, over_the_wire
from tests.broker.metadata.images import cluster, with_topics

ROOT = "/data"
LONGEST = "x" * 213


def request(*moves: tuple[str, str, int]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])
            for path, topic, index in moves
        ]
    )


def codes(answer: AlterReplicaLogDirsResponse) -> dict[tuple[str, int], int]:
    answer = over_the_wire(answer, 2)
    return {
        (topic.topic_name, part.partition_index): part.error_code
        for topic in answer.results
        for part in topic.partitions
    }


@pytest.fixture
def context() -> Any:
    image = with_topics(
        cluster(2),
        NewTopic("t", assignments=[(0, [1]), (1, [2])]),
        NewTopic(LONGEST, assignments=[(0, [1])]),
        NewTopic(LONGEST + "x", assignments=[(0, [1])]),
    )
    metadata = SimpleNamespace(image=image)
    logs = SimpleNamespace(root=ROOT)
    return context_of(SimpleNamespace(broker_id=1, logs=logs, metadata=metadata, turns=Turns()), 2)


async def test_there_is_one_directory(context: Any) -> None:
    asked = request((ROOT, "t", 0), (ROOT, "t", 1), (ROOT, "t", 2), (ROOT, "t", -1), (ROOT, "absent", 0))
    assert codes(await handle(asked, context)) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.REPLICA_NOT_AVAILABLE,
        ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for path in ("", "/", "/other", f"{ROOT}/", f"{ROOT}/t-0"):
        assert codes(await handle(request((path, "t", 0)), context)) == {("t", 0): ErrorCode.LOG_DIR_NOT_FOUND}


async def test_the_last_directory_of_a_partition_counts(context: Any) -> None:
    asked = request((ROOT, "t", 0), ("/other", "t", 0))
    assert codes(await handle(asked, context)) == {("t", 0): ErrorCode.LOG_DIR_NOT_FOUND}
    asked = request(("/other", "t", 0), (ROOT, "t", 0))
    assert codes(await handle(asked, context)) == {("t", 0): ErrorCode.NONE}


async def test_a_name_that_leaves_no_room_for_a_suffix(context: Any) -> None:
    asked = request((ROOT, LONGEST, 0), ("/other", LONGEST + "x", 0))
    assert codes(await handle(asked, context)) == {
        (LONGEST, 0): ErrorCode.NONE,
        (LONGEST + "x", 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_a_request_that_fails_as_a_whole(context: Any) -> None:
    asked = request((ROOT, "t", 0), (ROOT, "t", 1))
    error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert codes(error_reply(asked, error, context)) == {("t", 0): -1, ("t", 1): -1}
