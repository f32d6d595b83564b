"""All that the sink needs of Spark beyond its documented API, and the check that the installed Spark has it.

| what | where Spark keeps it |
|---|---|
| the id of the query that runs a batch | a local property of the thread, on the driver and in tasks; its session |
| its run, its trigger's kind, its sources, its checkpoint | the JVM's StreamExecution, in the session's shared state |
| what a batch was planned to read | the StreamExecution's log of offsets, with `metadata` or `metadataOpt` |
| the attempt of a stage that a task belongs to | the name of the executor's thread; TaskContext lacks it |
| that a batch was stopped, and did not fail | the text of the exception of a foreachBatch function |
| source and trigger of a query before it starts | private fields of the JVM's DataStreamWriter; its catalog |
| the times of the phases of a batch | the durations that its progress is made of; without them, nothing is shown |
| a shuffle that can be run before what follows it | the RDD of a plan; without it, the rows are cached |

Nothing else in this project reaches into Spark. What a version lacks is a SinkError that names both.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from oncelog.named_tuple import NamedTuple
from oncelog.spark.errors import SinkError

logger = logging.getLogger(__name__)

TESTED = ("4.0", "4.1", "4.2", "4.3")
QUERY_ID_PROPERTY = "sql.streaming.queryId"

THREAD_EXPRESSION = "java_method('java.lang.Thread', 'currentThread')"
"""SQL that gives the thread of the task that evaluates it."""
_TEMPORARY = re.compile(r"/temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/?$")
_THREAD = re.compile(r"task (\d+)\.(\d+) in stage (\d+)\.(\d+)")
_checked_applications: set[str] = set()


INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling: java.lang.InterruptedException"
"""While a query is being stopped, Spark takes an exception with this text for its own interruption, not a failure."""


class PlannedBatch(NamedTuple):
    """What Spark noted in the checkpoint about a batch before it ran."""

    ends: Sequence[str | None]
    """Where each source ends, as the source's own JSON."""
    kinds: Sequence[str]
    """The name of each source's class."""
    timestamp_ms: int | None


class RunningQuery:
    """The JVM's object of a query that this application runs."""

    def __init__(self, execution: Any, spark_version: str) -> None:
        self._execution = execution
        self._version = spark_version

    @property
    def run_id(self) -> str:
        """Changes with every start of the query."""
        return str(self._ask(self._execution, "runId").toString())

    @property
    def is_active(self) -> bool:
        return bool(self._ask(self._execution, "isActive"))

    @property
    def tracks_progress_late(self) -> bool:
        """Whether the query runs with asynchronous progress tracking."""
        return "AsyncProgressTracking" in self._execution.getClass().getSimpleName()

    @property
    def has_state(self) -> bool:
        """Whether the batch that is running has an operator with state."""
        return "state info [" in self._ask(self._ask(self._execution, "lastExecution"), "executedPlan").toString()

    @property
    def has_temporary_checkpoint(self) -> bool:
        """Whether Spark made up a directory for the checkpoint, which it deletes when the query stops."""
        return _TEMPORARY.search(str(self._ask(self._execution, "resolvedCheckpointRoot"))) is not None

    def planned(self, batch_id: int) -> PlannedBatch | None:
        """None where Spark noted nothing about the batch."""
        logged = self._ask(self._ask(self._execution, "offsetLog"), "get", batch_id)
        if not logged.isDefined():
            return None
        entry = logged.get()
        ends = [end.get().json() if end.isDefined() else None for end in _items(self._ask(entry, "offsets"))]
        kinds = [source.getClass().getSimpleName() for source in _items(self._ask(self._execution, "sources"))]
        return PlannedBatch(ends, kinds, self._timestamp_ms(entry))

    def _timestamp_ms(self, entry: Any) -> int | None:
        # Where both names exist, `metadata` is something else.
        metadata = self._ask(entry, ("metadataOpt", "metadata"))
        return int(metadata.get().batchTimestampMs()) if metadata.isDefined() else None

    def _ask(self, target: Any, names: str | tuple[str, ...], *arguments: object) -> Any:
        """Calls a method of the JVM's object, by the first of its names that exists."""
        from py4j.protocol import Py4JError

        for name in (names,) if isinstance(names, str) else names:
            try:
                return getattr(target, name)(*arguments)
            except Py4JError as error:
                if f"Method {name}(" not in str(error) or "does not exist" not in str(error):
                    raise
        raise _lacks(self._version, f"{_class_name(target)}.{name}")


def is_remote(spark: Any) -> bool:
    """Whether this is a session of Spark Connect, without a JVM that could be asked."""
    return not hasattr(spark, "_jsparkSession")


def remote_trigger(writer: Any) -> str:
    """Which trigger was set on a DataStreamWriter of Spark Connect; empty for none."""
    return str(writer._write_proto.WhichOneof("trigger") or "")


def remote_source(writer: Any) -> str:
    return str(writer._write_proto.format)


def parallelism(spark: Any) -> int:
    """How many tasks Spark makes by itself."""
    if is_remote(spark):
        return int(spark.range(256).selectExpr("spark_partition_id() AS task").distinct().count())
    return int(spark.sparkContext.defaultParallelism)


def core_setting(spark: Any, name: str) -> str:
    """A setting of the application, such as spark.speculation; empty if it is not set."""
    if is_remote(spark):
        return str(spark.conf.get(name, ""))
    return spark.sparkContext.getConf().get(name) or ""


def current_query_id(spark: Any) -> str:
    """Of the query whose batch this thread runs, or else of the query whose own session this is; empty for none."""
    named = spark.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if named:
        return str(named)
    session_id = spark._jsparkSession.sessionUUID()
    for execution in _running_queries(spark).values():
        if execution.sparkSessionForStream().sessionUUID() == session_id:
            return str(execution.id().toString())
    return ""


def find_query(spark: Any, query_id: str) -> RunningQuery | None:
    """The session of a batch is a clone, so only the state that sessions share knows the query."""
    if not query_id:
        return None
    execution = _running_queries(spark).get(spark.sparkContext._jvm.java.util.UUID.fromString(query_id))
    return None if execution is None else RunningQuery(execution, spark.version)


def _running_queries(spark: Any) -> Any:
    from py4j.protocol import Py4JError

    try:
        return spark._jsparkSession.sharedState().activeStreamingQueries()
    except Py4JError:
        raise _lacks(spark.version, "SharedState.activeStreamingQueries") from None


def check_spark(spark: Any) -> None:
    """SinkError unless this Spark has what the sink needs. Runs one small task, once in an application."""
    from pyspark.errors import AnalysisException

    # A process that serves Spark Connect serves one query only.
    application = "" if is_remote(spark) else spark.sparkContext.applicationId
    if application in _checked_applications:
        return
    if not spark.version.startswith("4."):
        raise SinkError(f"Spark {spark.version} is not supported; the sink is tested with Spark {', '.join(TESTED)}")
    try:
        (row,) = spark.range(0, 1, 1, 1).selectExpr(f"{THREAD_EXPRESSION} AS thread").collect()
        is_first_attempt(row["thread"])
    except (AnalysisException, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise _lacks(spark.version, f"attempt of a stage in the names of its threads ({reason})") from None
    _checked_applications.add(application)


def is_first_attempt(thread: str | None) -> bool:
    """Whether a task is the first attempt at its part of the stage, and the stage the first attempt at itself."""
    found = _THREAD.search(thread or "")
    if found is None:
        raise ValueError(f"the thread is {thread!r}")
    return not (int(found[2]) or int(found[4]))


def wait_for_interrupt(spark: Any, seconds_max: float) -> bool:
    """To be called in a foreachBatch function. True as soon as `query.stop()` has interrupted it, False if it did not.

    Such a function runs while the JVM's thread of the query waits for it, and what it asks of the JVM runs in that
    thread, which is the one that Spark interrupts.
    """
    from py4j.protocol import Py4JJavaError

    try:
        spark.sparkContext._jvm.java.lang.Thread.sleep(int(seconds_max * 1000))
    except Py4JJavaError:
        return True
    return False


def add_durations(spark: Any, query_id: str, durations_ms: Mapping[str, int]) -> None:
    """Puts them into `durationMs` of the progress of the batch that is running; for people only, so where it works."""
    from py4j.protocol import Py4JError

    if is_remote(spark) or not query_id:
        return
    execution = _running_queries(spark).get(spark.sparkContext._jvm.java.util.UUID.fromString(query_id))
    if execution is None:
        return
    try:
        # From Spark 4.1 on, each batch has a context of its own.
        context = execution.latestExecutionContext() if hasattr(execution, "latestExecutionContext") else execution
        context.currentDurationsMs().addAll(_longs(spark.sparkContext._jvm, durations_ms))
    except Py4JError as error:
        logger.debug("the durations of the sink are not in the progress of the query: %s", error)


def _longs(jvm: Any, values: Mapping[str, int]) -> Any:
    """A map of Scala's with Longs, as which Py4J sends no small number."""
    classes = [jvm.java.lang.Class.forName(f"java.{name}") for name in ("util.HashMap", "lang.String", "lang.Long")]
    jackson = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    kind = jackson.getTypeFactory().constructMapType(*classes)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(jackson.readValue(json.dumps(values), kind))


def run_shuffle(frame: Any) -> Any | None:
    """Runs a DataFrame up to its last shuffle, and gives one that goes on from there, or None if Spark has no such way.

    Spark would run both parts as one job, without a moment for the driver in between.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    try:
        execution = frame._jdf.queryExecution()
        plan = execution.toRdd()
        # Adaptive execution has run the shuffles by now. A DataFrame without rows can have no partition to run.
        if _class_name(execution.executedPlan()) != "AdaptiveSparkPlanExec":
            for shuffle in _shuffles(plan):
                if shuffle.rdd().getNumPartitions():
                    session.sparkContext._jsc.sc().submitMapStage(shuffle).get()
        return DataFrame(session._jsparkSession.internalCreateDataFrame(plan, frame._jdf.schema(), False), session)
    except Py4JJavaError:
        raise
    except (Py4JError, AttributeError):
        return None


def _shuffles(rdd: Any) -> list[Any]:
    """The nearest shuffles that a plan's RDD depends on."""
    found: list[Any] = []
    for dependency in _items(rdd.dependencies()):
        is_shuffle = _class_name(dependency) == "ShuffleDependency"
        found += [dependency] if is_shuffle else _shuffles(dependency.rdd())
    return found


def writer_field(writer: Any, name: str) -> Any:
    """What was set on a DataStreamWriter, such as `source` and `trigger`."""
    from py4j.protocol import Py4JJavaError

    try:
        field = writer._jwrite.getClass().getDeclaredField(name)
    except Py4JJavaError:
        raise _lacks(writer._spark.version, f"DataStreamWriter.{name}") from None
    field.setAccessible(True)
    return field.get(writer._jwrite)


def table_source(writer: Any, name: str) -> str:
    """The data source of a table in Spark's own catalog; empty if there is no such table."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException

    try:
        state = writer._spark._jsparkSession.sessionState()
        provider = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name)).provider()
    except AnalysisException:
        return ""
    except Py4JError:
        raise _lacks(writer._spark.version, "SessionCatalog.getTableMetadata") from None
    return str(provider.get()) if provider.isDefined() else ""


def jvm_process() -> Any:
    """The process that PySpark has started for the driver's JVM."""
    from pyspark import SparkContext

    return SparkContext._gateway.proc


def _items(sequence: Any) -> list[Any]:
    """Of one of Scala's sequences."""
    return [sequence.apply(index) for index in range(sequence.size())]


def _class_name(target: Any) -> str:
    return str(target.getClass().getSimpleName())


def _lacks(version: str, what: str) -> SinkError:
    return SinkError(
        f"Spark {version} is not supported: it has no {what}, without which the sink cannot recognise a repeated batch."
        f" It is tested with Spark {', '.join(TESTED)}"
    )
