"""Refuses the triggers with which Spark never calls a data source's writer.

Continuous processing drops every row on its way to a Python data source, and then commits the epoch and the source's
offsets. The writer cannot stop that: it is not told the trigger, and a commit that raises is only logged by Spark. So
`writeStream.start()` and `toTable()` themselves are made to refuse it, in the process in which the data source is
registered.
"""

from __future__ import annotations

from functools import cache, wraps
from typing import Any

from oncelog.spark.errors import SinkError
from oncelog.spark.internals import remote_source, remote_trigger, table_source, writer_field

_MICRO_BATCH_TRIGGERS = frozenset({"ProcessingTimeTrigger", "OneTimeTrigger", "AvailableNowTrigger"})
_REMOTE_TRIGGERS = frozenset({"", "processing_time_interval", "once", "available_now"})


@cache
def refuse_other_triggers(source: str) -> None:
    """From now on, a stream to `source`, in any case, starts only with a trigger of micro-batches."""
    from pyspark.sql.streaming import DataStreamWriter

    start: Any = DataStreamWriter.start
    to_table: Any = DataStreamWriter.toTable

    @wraps(start)
    def checked_start(writer: Any, path: Any = None, format: Any = None, *others: Any, **options: Any) -> Any:
        if _is(source, format or writer_field(writer, "source")):
            check_trigger(writer_field(writer, "trigger"))
        return start(writer, path, format, *others, **options)

    @wraps(to_table)
    def checked_to_table(writer: Any, tableName: str, format: Any = None, *others: Any, **options: Any) -> Any:
        named = (format, writer_field(writer, "source"), table_source(writer, tableName))
        if any(_is(source, name) for name in named):
            check_trigger(writer_field(writer, "trigger"))
        return to_table(writer, tableName, format, *others, **options)

    DataStreamWriter.start = checked_start
    DataStreamWriter.toTable = checked_to_table


@cache
def refuse_other_remote_triggers(source: str) -> None:
    """The same for Spark Connect, whose client has a class of its own."""
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    start: Any = DataStreamWriter._start_internal

    @wraps(start)
    def checked_start(writer: Any, *others: Any, **options: Any) -> Any:
        trigger = remote_trigger(writer)
        named = options.get("format") or remote_source(writer)
        # Only the server knows which data source a table is of.
        may_be_ours = _is(source, named) or (options.get("tableName") and not named)
        if may_be_ours and trigger not in _REMOTE_TRIGGERS:
            raise _not_supported(trigger)
        return start(writer, *others, **options)

    DataStreamWriter._start_internal = checked_start


def _is(source: str, named: str | None) -> bool:
    return named is not None and named.lower() == source


def check_trigger(trigger: Any) -> None:
    """Takes a trigger of the JVM. SinkError unless Spark runs micro-batches with it."""
    kind = str(trigger.getClass().getSimpleName()).rstrip("$")
    if kind not in _MICRO_BATCH_TRIGGERS:
        raise _not_supported(trigger.toString())


def _not_supported(trigger: str) -> SinkError:
    return SinkError(
        f"{trigger} is not supported: Spark would drop all rows and commit the source's offsets. Use"
        " trigger(processingTime=...) or trigger(availableNow=True)"
    )
