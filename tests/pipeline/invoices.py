"""A job as a new user writes it, for spark-submit: orders come from a topic or from files, invoices go to a topic.

invoices.py BROKERS CHECKPOINT kafka|DIRECTORY [available-now] [continuous]
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, from_json, struct, to_json

from oncelog.spark import exactly_once_sink
from oncelog.spark.datasource import OncelogDataSource

TRANSACTIONAL_ID = "invoices"
BATCH = 400


def read_orders(spark: SparkSession, brokers: str, source: str) -> DataFrame:
    if source != "kafka":
        return spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(source)
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH)
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
    )


def invoice(orders: DataFrame) -> DataFrame:
    order = orders.select(from_json("value", "number long, customer string, cents long").alias("o")).select("o.*")
    priced = order.withColumn("with_tax", expr("CAST(round(cents * 1.2) AS LONG)"))
    return priced.select(col("customer").alias("key"), to_json(struct("number", "cents", "with_tax")).alias("value"))


def try_continuous(invoices: DataFrame, brokers: str, checkpoint: str) -> None:
    """What somebody who wants less latency tries; no row may be lost by it."""
    invoices.sparkSession.dataSource.register(OncelogDataSource)
    writer = invoices.writeStream.format("oncelog").option("bootstrap", brokers).option("topic", "invoices")
    writer = writer.option("transactional_id", "continuous").option("checkpointLocation", f"{checkpoint}-continuous")
    try:
        writer.trigger(continuous="1 second").start()
    except Exception as error:
        print(f"continuous: {error}", flush=True)


def main(brokers: str, checkpoint: str, source: str, *modes: str) -> None:
    spark = SparkSession.builder.appName("invoices").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    invoices = invoice(read_orders(spark, brokers, source))
    if "continuous" in modes:
        try_continuous(invoices, brokers, checkpoint)
    sink = exactly_once_sink(brokers, transactional_id=TRANSACTIONAL_ID, topic="invoices")
    trigger: dict[str, Any] = {"availableNow": True} if "available-now" in modes else {"processingTime": "0.1 seconds"}
    writer = invoices.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
