"""Partitions as Java's client chooses them, and lanes that do not collide."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from oncelog.client.partitioner import partition_for_key
from oncelog.protocol.records.columns import Column
from oncelog.spark import partitions
from oncelog.spark.partitions import choose_partitions, lane_keys, plain_partition_keys

KEYS = [b"", b"a", b"21", b"foobar", None, b"a-little-bit-long-string", "é".encode(), bytes(range(256))]


def column(values: list[bytes | None]) -> Column:
    ends = np.cumsum([0, *(len(value or b"") for value in values)])
    bits = sum((value is not None) << index for index, value in enumerate(values))
    return Column(struct.pack(f"={len(ends)}i", *ends), b"".join(v or b"" for v in values), bytes([bits]), 0)


@pytest.mark.parametrize("function", [plain_partition_keys, partitions.partition_keys])
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_a_key_goes_where_javas_client_sends_it(function: object, count: int) -> None:
    found = np.frombuffer(function(column(KEYS), len(KEYS), count), dtype=np.int32)  # type: ignore[operator]
    assert found.tolist() == [-1 if key is None else partition_for_key(key, count) for key in KEYS]


def test_rows_without_a_key_are_dealt_out_evenly_in_runs() -> None:
    dealt = choose_partitions(None, 100, 4, 2).tolist()
    assert dealt == [2] * 25 + [3] * 25 + [0] * 25 + [1] * 25
    mixed = choose_partitions(column(KEYS), len(KEYS), 4, 3).tolist()
    assert mixed[4] == 3
    assert mixed[1] == partition_for_key(b"a", 4)


@pytest.mark.parametrize("count", [1, 2, 4, 7, 64])
def test_each_lane_has_a_key_of_its_own(count: int) -> None:
    assert len(set(lane_keys(count))) == count


@pytest.mark.spark
def test_spark_sends_each_lane_to_a_task_of_its_own(spark: object) -> None:
    from pyspark.sql.functions import spark_partition_id

    keys = lane_keys(5)
    frame = spark.createDataFrame([(key,) for key in keys], "lane int")  # type: ignore[attr-defined]
    rows = frame.repartition(5, "lane").withColumn("task", spark_partition_id()).collect()
    assert {row["lane"]: row["task"] for row in rows} == {key: lane for lane, key in enumerate(keys)}
