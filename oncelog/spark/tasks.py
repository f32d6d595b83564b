"""The functions that run in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oncelog.spark.blocks import BlockEncoder, EncodePlan
from oncelog.spark.writing import WritePlan, write_blocks


def encode_task(plan: EncodePlan, batches: Iterator[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    yield from BlockEncoder(plan, context.partitionId()).encode(batches)


def write_task(plan: WritePlan, batches: Iterator[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    yield from write_blocks(plan, context.attemptNumber(), batches)
