"""The functions that run in Spark's tasks."""

from __future__ import annotations

import contextlib
import sys
import zipimport
from collections.abc import Iterator
from typing import Any

from oncelog.spark.blocks import BlockEncoder, EncodePlan
from oncelog.spark.writing import WritePlan, write_blocks


def encode_task(plan: EncodePlan, batches: Iterator[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    with quick_next_task():
        yield from BlockEncoder(plan, context.partitionId()).encode(batches)


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
