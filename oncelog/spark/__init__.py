"""Exactly-once from Spark Structured Streaming to any Kafka: one micro-batch is one transaction.

from oncelog.spark import exactly_once_sink

rows.writeStream.foreachBatch(exactly_once_sink("host:9092", transactional_id="orders-etl", topic="orders"))
"""

from oncelog.spark.errors import SinkError, TransactionalIdInUse
from oncelog.spark.report import BatchReport, report_listener
from oncelog.spark.sink import ExactlyOnceSink, exactly_once_sink

__all__ = [
    "BatchReport",
    "ExactlyOnceSink",
    "SinkError",
    "TransactionalIdInUse",
    "exactly_once_sink",
    "report_listener",
]
