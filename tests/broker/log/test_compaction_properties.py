"""Random histories of a compacted log, cleaned and restarted at random, against the model."""

from __future__ import annotations

from compaction_helpers import DELETE_RETENTION_MS
from compaction_model import KEYS, PRODUCERS, TRANSACTIONAL, Model
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.records.compression import Compression

writes = st.tuples(
    st.just("write"),
    st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=4),
    st.sampled_from(PRODUCERS),
    st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
)
ends = st.tuples(st.just("end"), st.sampled_from(sorted(TRANSACTIONAL)), st.booleans())
others = st.one_of(
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.sampled_from([1, 2, 1000])),
    st.tuples(st.just("wait"), st.sampled_from([1, DELETE_RETENTION_MS // 2, 2 * DELETE_RETENTION_MS])),
    st.tuples(st.just("restart"), st.booleans()),
)
histories = st.lists(st.one_of(writes, writes, ends, others, others), min_size=10, max_size=60)


@given(histories)
def test_every_key_keeps_its_last_value(history: list[tuple]) -> None:  # type: ignore[type-arg]
    model = Model()
    for name, *arguments in history:
        getattr(model, name)(*arguments)
    model.roll()
    while model.log.clean():
        model.check()
    model.restart(with_snapshots=False)
