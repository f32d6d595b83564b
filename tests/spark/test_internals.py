"""What the sink needs of Spark beyond its documented API; where it is missing, an error names it and the version."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from oncelog.spark.errors import SinkError
from oncelog.spark.internals import (
    INTERRUPTED,
    RunningQuery,
    check_spark,
    is_first_attempt,
    wait_for_interrupt,
    writer_field,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have had this Spark checked already."""
    monkeypatch.setattr("oncelog.spark.internals._checked_applications", set())


def test_this_spark_has_all(spark: Any) -> None:
    check_spark(spark)


@pytest.mark.parametrize(
    ("thread", "first"),
    [
        ("Thread[Executor task launch worker for task 0.0 in stage 3.0 (TID 7),5,main]", True),
        ("Thread[Executor task launch worker for task 12.1 in stage 3.0 (TID 7),5,main]", False),
        ("Thread[Executor task launch worker for task 12.0 in stage 3.2 (TID 7),5,main]", False),
    ],
)
def test_attempts_of_tasks_and_stages(thread: str, first: bool) -> None:
    assert is_first_attempt(thread) == first


@pytest.mark.parametrize("thread", [None, "Thread[worker-3,5,main]"])
def test_a_thread_of_another_name_is_no_first_attempt(thread: str | None) -> None:
    with pytest.raises(ValueError, match="the thread is"):
        is_first_attempt(thread)


def test_what_is_missing_is_named_with_the_version(spark: Any) -> None:
    """An object of another class stands for that of a Spark to come."""
    query = RunningQuery(spark._jvm.java.lang.Object(), spark.version)
    lacking = re.escape(f"Spark {spark.version} is not supported: it has no Object.")
    with pytest.raises(SinkError, match=f"{lacking}runId"):
        query.run_id  # noqa: B018
    with pytest.raises(SinkError, match=f"{lacking}offsetLog"):
        query.planned(0)
    writer = spark.readStream.format("rate").load().writeStream
    assert writer_field(writer, "trigger").getClass().getSimpleName() == "ProcessingTimeTrigger"
    with pytest.raises(SinkError, match=re.escape(f"{spark.version} is not supported: it has no DataStreamWriter.x")):
        writer_field(writer, "x")


def test_threads_of_another_name_are_refused_before_a_batch(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.spark.internals.THREAD_EXPRESSION", "'worker-3'")
    with pytest.raises(SinkError, match=r"no attempt of a stage in the names of its threads .*worker-3"):
        check_spark(spark)


def test_a_batch_that_waits_for_the_stop_of_its_query_has_not_failed(spark: Any) -> None:
    waiting, interrupted = threading.Event(), []

    def wait(rows: Any, _: int) -> None:
        waiting.set()
        interrupted.append(wait_for_interrupt(rows.sparkSession, 100))
        raise RuntimeError(INTERRUPTED)

    query = spark.readStream.format("rate").load().writeStream.foreachBatch(wait).start()
    assert waiting.wait(100)
    query.stop()
    assert interrupted == [True]
    assert query.exception() is None
