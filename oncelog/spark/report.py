"""What became of a batch, where people who run Spark look for it.

- `sink.last_report` and `sink.reports`, and the log, one line for each batch.
- `StreamingQueryProgress.durationMs`, and with it listeners and the Spark UI, get the time of the phases as
  `oncelog.fence`, `oncelog.encode`, `oncelog.write` and `oncelog.commit`.
- `report_listener(sink, action)` is a StreamingQueryListener that gets the progress together with the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from oncelog.spark.sink import ExactlyOnceSink

REPORTS_MAX = 100
"""As many as Spark keeps of its own progress."""


class BatchReport(NamedTuple):
    """What became of a batch."""

    batch_id: int
    records: int
    size_bytes: int
    partitions: int
    runs: int
    skipped: bool
    producer_id: int
    epoch: int
    transactional_id: str = ""
    query_id: str = ""
    run_id: str = ""
    retries: int = 0
    """How often the driver sent a request of the transaction again, because its answer was lost."""
    durations_ms: dict[str, int] = {}
    """Of the phases fence, encode, write and commit, over all runs of the batch."""

    @property
    def aborts(self) -> int:
        """How many transactions of the batch were aborted before the one that was committed."""
        return self.runs - 1


class Phases:
    """Adds up the time of the phases of a batch."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.monotonic() - started

    def durations_ms(self) -> dict[str, int]:
        return {name: round(seconds * 1000) for name, seconds in self._seconds.items()}


def report_listener(sink: ExactlyOnceSink, action: Callable[[Any, BatchReport], None]) -> Any:
    """For `spark.streams.addListener`: calls `action(progress, report)` for each batch of the sink's query."""
    from pyspark.sql.streaming import StreamingQueryListener

    class Reports(StreamingQueryListener):  # type: ignore[misc]  # PySpark's types are not known everywhere
        def onQueryStarted(self, event: Any) -> None:
            """Nothing to report yet."""

        def onQueryProgress(self, event: Any) -> None:
            progress = event.progress
            for report in sink.reports:
                if (report.run_id, report.batch_id) == (str(progress.runId), progress.batchId):
                    action(progress, report)

        def onQueryTerminated(self, event: Any) -> None:
            """Nothing to report any more."""

    return Reports()
