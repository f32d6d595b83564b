"""Brings the blocks of each output partition together, and tells which partitions have any before they are written.

A partition has to be in the transaction before anything is written to it, and one without rows should stay out: each
partition of a transaction gets a marker in its log. So the encoding stage runs first, up to its shuffle. Its tasks
report the partitions that they have rows for in an accumulator, and the writing tasks then read what was shuffled.
Spark may lose a report without an error; so the writing tasks run in any case, and refuse a block of a partition that
was not reported. Where that happens, and where the JVM is out of reach (Spark Connect), the shuffled blocks are cached
instead, and looked at.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.client.cluster import TopicPartition
from oncelog.named_tuple import NamedTuple
from oncelog.spark.blocks import BLOCK_SCHEMA, EncodePlan
from oncelog.spark.errors import SinkError
from oncelog.spark.internals import run_shuffle
from oncelog.spark.tasks import Touched, encode_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BAD_ROW = re.compile(r"BadRow: (.*)")


class Gathered(NamedTuple):
    blocks: DataFrame
    """In the order in which they are to be written."""
    partitions: frozenset[TopicPartition]
    is_exact: bool
    """Whether no other partition can have any. Spark may lose what tasks report in an accumulator, without an error."""


@contextlib.contextmanager
def gather(rows: DataFrame, plan: EncodePlan, touched: Touched | None) -> Iterator[Gathered]:
    """Without an accumulator for it, the blocks are looked at for their partitions."""
    encoded = rows.mapInArrow(partial(encode_task, plan, touched), BLOCK_SCHEMA)
    # Neighbours are of different partitions, so that they can share a request.
    blocks = encoded.repartition(len(plan.lane_keys), "lane").sortWithinPartitions(
        "task", "block", "topic", "partition"
    )
    if touched is not None:
        touched.value = frozenset()
        with one_line_errors():
            shuffled = run_shuffle(blocks)
        if shuffled is not None:
            yield Gathered(shuffled, touched.value, is_exact=False)
            return
    cached = blocks.persist()
    try:
        found = collect(cached.select("topic", "partition"))
        yield Gathered(cached, frozenset((row["topic"], row["partition"]) for row in found), is_exact=True)
    finally:
        cached.unpersist()


def collect(frame: DataFrame) -> list[Any]:
    with one_line_errors():
        return list(frame.collect())


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Around a job of Spark's: a row that cannot be written comes back as one line."""
    try:
        yield
    except Exception as error:
        found = _BAD_ROW.search(str(error))
        if found is None:
            raise
        raise SinkError(found[1]) from None
