"""The functions that run in Spark's tasks."""

from __future__ import annotations

import contextlib
import sys
import zipimport
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from oncelog.client.cluster import TopicPartition
from oncelog.spark.blocks import BlockEncoder, EncodePlan
from oncelog.spark.writing import WritePlan, write_blocks

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext


Touched: TypeAlias = "Accumulator[frozenset[TopicPartition]]"
"""The output partitions that got rows, as a Spark accumulator."""


class _Union:
    """Spark's AccumulatorParam for sets."""

    def zero(self, value: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        return frozenset()

    def addInPlace(
        self, value1: frozenset[TopicPartition], value2: frozenset[TopicPartition]
    ) -> frozenset[TopicPartition]:
        return value1 | value2


def new_touched(context: SparkContext) -> Touched:
    empty: frozenset[TopicPartition] = frozenset()
    return context.accumulator(empty, _Union())


def encode_task(plan: EncodePlan, touched: Touched | None, batches: Iterator[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    with quick_next_task():
        encoder = BlockEncoder(plan, context.partitionId())
        yield from encoder.encode(batches)
        if touched is not None:
            touched.add(encoder.partitions)


def write_task(plan: WritePlan, batches: Iterator[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    with quick_next_task():
        yield from write_blocks(plan, context.attemptNumber(), batches)


@contextlib.contextmanager
def quick_next_task() -> Iterator[None]:
    """Spares the next task of this worker process a fifth of a second before its first row.

    PySpark invalidates Python's import caches before each task, which makes Python read the directories of Spark's
    own archives again, entry by entry: pyspark.zip, and the jar of Spark's core with its thousands. They do not change
    while a worker lives, so their importers are dropped; the next import that passes by makes them again from the
    directories that are still in memory. Archives that came with the job are left alone.
    """
    from pyspark import SparkFiles

    try:
        yield
    finally:
        files = SparkFiles.getRootDirectory()
        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimport.zipimporter) and not finder.archive.startswith(files):
                del sys.path_importer_cache[path]
