"""A static member of a consumer group whose answer got lost may say again that it joins."""

from __future__ import annotations

import pytest
from consumer_client import ConsumerClients, Metadata

from oncelog.protocol.errors import ErrorCode, KafkaError


def test_a_join_that_is_repeated_is_not_refused() -> None:
    clients = ConsumerClients(Metadata(t=2))
    fields = {
        "instance_id": "static",
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    first = clients.heartbeat("m1", 0, **fields)
    again = clients.heartbeat("m1", 0, **fields)
    assert again.member_id == first.member_id
    assert again.assignment == first.assignment
    with pytest.raises(KafkaError) as refused:
        clients.heartbeat("m2", 0, **fields)
    assert refused.value.code == ErrorCode.UNRELEASED_INSTANCE_ID
