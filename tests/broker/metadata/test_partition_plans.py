from __future__ import annotations

import pytest

from oncelog.broker.metadata.controller import NewTopic, check_reassignment
from oncelog.broker.metadata.image import MetadataImage
from oncelog.protocol.errors import KafkaError
from tests.broker.metadata.images import cluster, with_topics


def code_of(image: MetadataImage, topic: str, index: int, replicas: list[int] | None) -> int:
    try:
        check_reassignment(image, topic, index, replicas)
    except KafkaError as error:
        return error.code
    return 0


@pytest.mark.parametrize(
    ("topic", "index", "replicas", "code"),
    [
        ("t", 1, [1], 0),
        ("absent", 0, [1], 3),
        ("t", 2, [1], 3),
        ("t", -1, [1], 3),
        ("t", 0, None, 85),
        ("t", 0, [], 39),
        ("t", 0, [9], 39),
        ("t", 0, [1, 9], 39),
        ("t", 0, [1, 1], 39),
    ],
)
def test_a_node_alone(topic: str, index: int, replicas: list[int] | None, code: int) -> None:
    image = with_topics(cluster(), NewTopic("t", 2))
    assert code_of(image, topic, index, replicas) == code


def test_no_replica_is_moved_to_another_broker() -> None:
    image = with_topics(cluster(2), NewTopic("t", assignments=[(0, [1])]))
    assert code_of(image, "t", 0, [1]) == 0
    assert code_of(image, "t", 0, [2]) == 39
