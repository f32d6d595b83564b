"""Compaction, retention and restart keep read_committed correct: random interleavings of producers of both
generations, ends, rolls, cleanings, deletions and restarts, against the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isolation_model import COMPACTED, KEYS, PRODUCERS, RETAINED, RETENTION_MS, VERSION_1, VERSION_2, IsolationModel

from oncelog.broker.log import log_reader, txn_index
from oncelog.broker.log.log_config import LogConfig

parts = st.floats(0, 1)
writes = st.tuples(
    st.just("write"), st.sampled_from(PRODUCERS), st.lists(st.sampled_from(KEYS), min_size=1, max_size=4)
)
ends = st.tuples(st.just("end"), st.sampled_from(VERSION_1 + VERSION_2), st.booleans())
treatments = st.one_of(
    st.tuples(st.just("settle")),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean")),
    st.tuples(st.just("retain"), st.sampled_from([1, RETENTION_MS // 2, RETENTION_MS + 1])),
    st.tuples(st.just("delete"), parts),
    st.tuples(st.just("restart"), st.booleans()),
)
looks = st.tuples(st.just("check"), parts, st.sampled_from([1, 150, 10_000]))
histories = st.lists(st.one_of(writes, writes, ends, treatments, looks), min_size=10, max_size=60)


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    """So that a few transactions are many blocks of an index, and more than one read may list."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(txn_index, "BLOCK_ENTRIES", 2)
        patch.setattr(log_reader, "ABORTED_MAX", 2)
        yield


@pytest.mark.parametrize("config", [RETAINED, COMPACTED], ids=["delete", "compact,delete"])
@given(history=histories)
def test_each_isolation_level_sees_what_it_must(config: LogConfig, history: list[tuple[Any, ...]]) -> None:
    model = IsolationModel(config)
    for name, *arguments in history:
        getattr(model, name)(*arguments)
    model.settle()
    model.check(0, 200)
    model.restart(clean=False)
    for producer_id in list(model.open):
        model.end(producer_id, commit=False)
    model.settle()
    model.check(0, 200)
    model.check(0.5, 1)
