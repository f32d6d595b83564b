from __future__ import annotations

from conformance.wire.mutations import changed, copy_of, mutations
from oncelog.protocol.codec import encode
from oncelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

FETCH = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=3)])])


def test_every_change_is_another_request() -> None:
    seen = {encode(changed(FETCH, path, value), 4) for _, path, value in mutations(FETCH, 4)}
    assert len(seen) == len(list(mutations(FETCH, 4)))
    assert encode(FETCH, 4) not in seen


def test_changes_reach_into_structs_and_lists() -> None:
    labels = {label for label, _, _ in mutations(FETCH, 4)}
    assert {"topics empty", "topics twice", "topics.topic unknown", "topics.partitions.fetch_offset -1"} <= labels


def test_fields_of_other_versions_are_left_alone() -> None:
    assert not any("session_id" in label for label, _, _ in mutations(FETCH, 6))
    assert any("session_id" in label for label, _, _ in mutations(FETCH, 7))


def test_null_only_where_it_may_be() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert not any(label == "topics null" for label, _, _ in mutations(request, 0))
    assert any(label == "topics null" for label, _, _ in mutations(request, 1))


def test_a_copy_shares_nothing() -> None:
    copied = copy_of(FETCH)
    copied.topics[0].partitions[0].fetch_offset = 9
    assert FETCH.topics[0].partitions[0].fetch_offset == 3
