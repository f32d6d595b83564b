"""Requests in chunks: together they have the elements of the whole, and the joined answers are the answer to it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.handlers import APIS
from oncelog.protocol.chunks import ChunkPaths, ChunkSize, along, cut, join
from oncelog.protocol.messages import request_class, response_class
from oncelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from oncelog.protocol.schema import ArrayType, StructType

PATHS = along("groups.topics.partition_indexes", "groups.topics.partitions")

requests = st.builds(
    OffsetFetchRequest,
    groups=st.lists(
        st.builds(
            OffsetFetchRequestGroup,
            group_id=st.sampled_from("ab"),
            topics=st.none()
            | st.lists(
                st.builds(
                    OffsetFetchRequestTopics,
                    name=st.sampled_from("xy"),
                    partition_indexes=st.lists(st.integers(0, 9), max_size=6),
                ),
                max_size=5,
            ),
        ),
        max_size=5,
    ),
)


def answer(request: OffsetFetchRequest) -> OffsetFetchResponse:
    """One answer for each element, in the same places."""
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponsePartitions(partition_index=index) for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in request.groups
        ]
    )


def leaf_count(request: OffsetFetchRequest) -> int:
    """What counts towards the size of a chunk: a partition, or what has none."""
    return sum(
        sum(len(topic.partition_indexes) or 1 for topic in group.topics) if group.topics else 1
        for group in request.groups
    )


@given(request=requests, sizes=st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_answers_to_the_chunks_make_the_answer_to_the_whole(request: OffsetFetchRequest, sizes: list[int]) -> None:
    expected = answer(request)
    size = ChunkSize(sizes[0])
    joined: OffsetFetchResponse | None = None
    for number, (chunk, seam) in enumerate(cut(request, PATHS.request, size)):
        assert leaf_count(chunk) <= sizes[number % len(sizes)]
        size.elements = sizes[(number + 1) % len(sizes)]
        if joined is None:
            joined = answer(chunk)
        else:
            join(joined, answer(chunk), PATHS.response, seam)
    assert joined == expected


def test_chunks_are_full() -> None:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(topics=[OffsetFetchRequestTopics(partition_indexes=[0])]) for _ in range(100)]
    )
    counts = [leaf_count(chunk) for chunk, _ in cut(request, PATHS.request, ChunkSize(30))]
    assert counts == [30, 30, 30, 10]


def test_equal_elements_that_were_not_cut_stay_apart() -> None:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1]) for _ in range(3)]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    chunks = list(cut(request, PATHS.request, ChunkSize(2)))
    assert [seam for _, seam in chunks] == [0, 1, 1]
    joined = answer(chunks[0][0])
    for chunk, seam in chunks[1:]:
        join(joined, answer(chunk), PATHS.response, seam)
    assert joined == answer(request)


def test_an_error_of_one_chunk_stands_for_all() -> None:
    whole, failed = OffsetFetchResponse(), OffsetFetchResponse(error_code=16)
    join(whole, failed, PATHS.response, 0)
    assert whole.error_code == 16


@pytest.mark.parametrize("key", APIS, ids=lambda key: APIS[key].key.stem)
def test_paths_name_arrays_of_the_messages(key: int) -> None:
    paths: tuple[ChunkPaths, ...] = getattr(
        import_module(f"oncelog.broker.handlers.{APIS[key].key.stem}"), "CHUNKS", ()
    )
    for path in paths:
        assert len(path.request) == len(path.response)
        messages: tuple[Any, Any] = request_class(APIS[key].key), response_class(APIS[key].key)
        for struct, names in zip(messages, path, strict=True):
            for name in names:
                (field,) = (field for field in struct.fields() if field.name == name)
                assert isinstance(field.type, ArrayType)
                struct = field.type.element.struct if isinstance(field.type.element, StructType) else None
