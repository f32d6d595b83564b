"""A stream of files through the sink. It needs no connector, so it runs with every Spark 4 (`make test-spark`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog.spark import ExactlyOnceSink, exactly_once_sink
from tests.spark.test_sink import read

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NewTopic = Callable[..., str]


class Stream:
    """A directory of text files, and the query that takes one of them in each batch."""

    def __init__(self, spark: Any, servers: str, topic: str, directory: Path) -> None:
        self.checkpoint = directory / "checkpoint"
        self._spark, self._servers, self._topic = spark, servers, topic
        self._files = directory / "files"
        self._files.mkdir()

    def add(self, name: str, *lines: str) -> None:
        """Spark must not see half a file."""
        hidden = self._files / f".{name}"
        hidden.write_text("\n".join(lines))
        os.replace(hidden, self._files / name)

    def run(self, *columns: str) -> ExactlyOnceSink:
        sink = exactly_once_sink(self._servers, transactional_id=f"files-{self._topic}", topic=self._topic)
        rows = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self._files))
        writer = rows.selectExpr(*(columns or ["value"])).writeStream.foreachBatch(sink)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(200)
        return sink

    def forget(self, *logs: str, batch: int) -> None:
        for log in logs:
            (self.checkpoint / log / str(batch)).unlink()
            (self.checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)

    def seen(self) -> list[str]:
        return sorted((value or b"").decode() for _, value in read(self._servers, self._topic))


@pytest.fixture
def stream(spark: Any, oncelog_servers: str, new_topic: NewTopic, tmp_path: Path) -> Stream:
    return Stream(spark, oncelog_servers, new_topic(oncelog_servers, 2), tmp_path)


def test_each_line_arrives_once_and_a_repeated_batch_is_skipped(stream: Stream) -> None:
    stream.add("one", "a", "b")
    stream.add("two", "c")
    first = stream.run()
    assert first.last_report is not None
    assert (first.last_report.batch_id, first.last_report.skipped) == (1, False)
    assert stream.seen() == ["a", "b", "c"]
    stream.forget("commits", batch=1)
    again = stream.run()
    assert again.last_report is not None
    assert (again.last_report.batch_id, again.last_report.skipped) == (1, True)
    stream.add("three", "d")
    stream.run()
    assert stream.seen() == ["a", "b", "c", "d"]


def test_a_batch_that_was_planned_anew_is_refused(stream: Stream) -> None:
    stream.add("one", "a")
    stream.run()
    stream.forget("offsets", "commits", batch=0)
    stream.add("two", "b")
    with pytest.raises(Exception, match="batch 0 of this query is committed already, with other rows"):
        stream.run()
    assert stream.seen() == ["a"]


def test_what_is_wrong_with_a_row_is_said(stream: Stream) -> None:
    stream.add("one", "a")
    with pytest.raises(Exception, match=r"partition 7 is out of range: topic '.*' has 2 partitions"):
        stream.run("value", "7 AS partition")
    assert stream.seen() == []
