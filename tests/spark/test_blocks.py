"""From Arrow to record batches: the same records, in order, within the limits, with both encoders."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from oncelog.client.partitioner import partition_for_key
from oncelog.protocol.records import columns
from oncelog.protocol.records.batch import read_header
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record, iter_records
from oncelog.protocol.records.validation import check_produce_batch
from oncelog.spark import blocks
from oncelog.spark.blocks import BlockEncoder, EncodePlan
from oncelog.spark.errors import BadRow
from oncelog.spark.options import SinkOptions
from oncelog.spark.topics import TopicPlan

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(autouse=True, params=["native", "plain"])
def _encoder(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(blocks, "encode_records", columns.encode_records)
        elif blocks.encode_records is columns.encode_records:
            pytest.skip("the C extension is not built")
        yield


def encode(
    batches: list[Any], *, topic: str | None = "out", partitions: int = 3, limit: int = 1_000_000, **options: Any
) -> list[tuple[str, int, int, list[Record]]]:
    """Topic, partition, number and records of each block."""
    plans = {"out": TopicPlan(partitions, limit), "other": TopicPlan(2, limit)}
    plan = EncodePlan(SinkOptions("h:1", "t", topic, **options), plans, [0])
    found = []
    for row in BlockEncoder(plan, 5).encode(iter(batches)):
        assert row.num_rows == 1
        values = row.to_pylist()[0]
        check_produce_batch(values["batch"], compacted=False)
        records = list(iter_records(memoryview(values["batch"])))
        header = read_header(values["batch"])
        assert header.is_transactional
        assert header.record_count == values["records"] == len(records)
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert values["task"] == 5
        found.append((values["topic"], values["partition"], values["block"], records))
    return found


def batch(**named: Any) -> Any:
    return pa.RecordBatch.from_arrays(list(named.values()), names=list(named))


@pytest.mark.parametrize("compression", list(Compression))
def test_rows_become_records_of_the_right_partition_in_order(compression: Compression) -> None:
    keys = [b"k%d" % (number % 10) for number in range(100)]
    values = [b"v%d" % number for number in range(100)]
    found = encode([batch(key=pa.array(keys), value=pa.array(values))], compression=compression)
    for topic, partition, number, records in found:
        wanted = [(k, v) for k, v in zip(keys, values, strict=True) if partition_for_key(k, 3) == partition]
        assert (topic, number) == ("out", 0)
        assert [(record.key, record.value) for record in records] == wanted
    assert sum(len(records) for *_, records in found) == 100


def test_nulls_headers_and_timestamps_arrive_as_they_are() -> None:
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=datetime.UTC)
    rows = batch(
        key=pa.array([b"k", None, b""]),
        value=pa.array([None, "text", ""]),
        headers=pa.array([[("a", b"1"), ("b", None)], None, []], type=HEADERS),
        timestamp=pa.array([when, None, when], type=pa.timestamp("us", tz="UTC")),
    )
    records = [record for *_, found in encode([rows], partitions=1) for record in found]
    assert [(record.key, record.value) for record in records] == [(b"k", None), (None, b"text"), (b"", b"")]
    assert [list(record.headers) for record in records] == [[("a", b"1"), ("b", None)], [], []]
    assert records[0].timestamp == records[2].timestamp == int(when.timestamp() * 1000)
    assert records[1].timestamp > records[0].timestamp


def test_sliced_arrays_are_read_from_their_start() -> None:
    values = pa.array([b"x%d" % number for number in range(20)])
    headers = pa.array([[("h", b"%d" % number)] for number in range(20)], type=HEADERS)
    rows = batch(value=values, key=values, headers=headers).slice(13, 4)
    records = [record for *_, found in encode([rows], partitions=1) for record in found]
    assert [record.value for record in records] == [b"x13", b"x14", b"x15", b"x16"]
    assert [list(record.headers) for record in records] == [[("h", b"%d" % number)] for number in range(13, 17)]


def test_blocks_end_at_their_size_and_go_on_over_arrow_batches() -> None:
    rows = [batch(value=pa.array([b"x" * 100] * 10)) for _ in range(4)]
    found = encode(rows, partitions=1, batch_size_bytes=1000)
    assert [number for _, _, number, _ in found] == list(range(len(found)))
    sizes = [len(records) for *_, records in found]
    assert sum(sizes) == 40
    assert set(sizes[:-1]) == {9}


def test_topics_and_partitions_from_columns() -> None:
    rows = batch(
        topic=pa.array(["out", "other", "out", "other"]),
        partition=pa.array([2, 0, None, 1], type=pa.int32()),
        key=pa.array([b"a", b"b", b"c", b"d"]),
        value=pa.array([b"1", b"2", b"3", b"4"]),
    )
    found = {
        (topic, partition): [r.value for r in records] for topic, partition, _, records in encode([rows], topic=None)
    }
    wanted: dict[tuple[str, int], list[bytes]] = {("out", 2): [b"1"], ("other", 0): [b"2"], ("other", 1): [b"4"]}
    wanted.setdefault(("out", partition_for_key(b"c", 3)), []).append(b"3")
    assert found == wanted


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (batch(value=pa.array([b"x"]), partition=pa.array([3], type=pa.int32())), "partition 3 is out of range"),
        (batch(value=pa.array([b"x"]), partition=pa.array([-1], type=pa.int32())), "partition -1 is out of range"),
        (batch(value=pa.array([b"x" * 2000])), "too large"),
        (batch(value=pa.array([b"x"]), headers=pa.array([[None]], type=HEADERS)), "header is null"),
        (batch(value=pa.array([b"x"]), headers=pa.array([[(None, b"v")]], type=HEADERS)), "has no key"),
        (batch(value=pa.array([b"x"]), timestamp=pa.array([-5], type=pa.timestamp("us"))), "before 1970"),
    ],
)
def test_a_row_that_cannot_be_written_is_found_before_anything_is_sent(rows: Any, words: str) -> None:
    with pytest.raises(BadRow, match=words):
        encode([rows], limit=1000)


def test_a_row_without_a_topic_is_refused() -> None:
    with pytest.raises(BadRow, match="no topic"):
        encode([batch(value=pa.array([b"x"]), topic=pa.array([None], type=pa.string()))], topic=None)


def test_a_large_record_that_compresses_well_fits() -> None:
    found = encode([batch(value=pa.array([b"x" * 2000, b"y"]))], limit=1000, compression=Compression.GZIP, partitions=1)
    assert [len(records) for *_, records in found] == [1, 1]


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("size_bytes", [1_233, 9_928])
def test_what_does_not_compress_still_fits(compression: Compression, size_bytes: int) -> None:
    """Eight records of 1,233 bytes, or one of 9,928, fill a batch to its limit; each codec makes it larger."""
    numbers = random.Random(7)
    values = [numbers.randbytes(size_bytes) for _ in range(20)]
    rows = batch(value=pa.array(values))
    found = encode([rows], limit=10_000, batch_size_bytes=1_048_576, compression=compression, partitions=1)
    assert [record.value for *_, records in found for record in records] == values


def test_no_rows_give_no_blocks() -> None:
    assert encode([batch(value=pa.array([], type=pa.binary()))]) == []
    assert encode([]) == []
