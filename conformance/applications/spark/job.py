"""The job, in a process of its own: `job.py BROKER ROWS COPIES DIRECTORY` prints what it saw as a line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from oncelog.pipeline.session import spark_session

COLUMNS = ("partition", "offset", "key", "value", "headers")


def main(address: str, rows: str, copies: str, directory: str) -> None:
    spark = spark_session("conformance", settings={"spark.sql.streaming.metricsEnabled": "false"})
    try:
        print(json.dumps(Job(spark, address).run(rows, copies, directory)))
    finally:
        spark.stop()


class Job:
    def __init__(self, spark: Any, address: str) -> None:
        self._spark, self._address = spark, address

    def run(self, rows: str, copies: str, directory: str) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        self._write(rows, 0)
        seen["batch"] = self._read(rows)
        bounds = {rows: {"0": 1, "1": 0}}, {rows: {"0": 3, "1": 2}}
        seen["bounded"] = self._read(rows, startingOffsets=json.dumps(bounds[0]), endingOffsets=json.dumps(bounds[1]))
        seen["no such topic"] = self._fails(f"{rows}-absent")
        self._copy(rows, copies, directory)
        seen["copied"] = self._read(copies, "read_committed")
        self._write(rows, 10)
        self._copy(rows, copies, directory)
        seen["copied after a restart"] = self._read(copies, "read_committed")
        return seen

    def _write(self, topic: str, first: int) -> None:
        from pyspark.sql import functions as F

        header = F.struct(F.lit("h").alias("key"), F.col("value").cast("binary").alias("value"))
        (
            self._spark.range(first, first + 10, 1, 1)
            .select(
                F.col("id").cast("string").alias("key"),
                F.concat(F.lit("row "), F.col("id")).alias("value"),
                (F.col("id") % 2).cast("int").alias("partition"),
            )
            .withColumn("headers", F.array(header))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self._address)
            .option("topic", topic)
            .save()
        )

    def _reader(self, reader: Any, topic: str, isolation: str, **options: str) -> Any:
        chosen = {"startingOffsets": "earliest", "includeHeaders": "true", **options}
        return (
            reader.format("kafka")
            .option("kafka.bootstrap.servers", self._address)
            .option("kafka.isolation.level", isolation)
            .option("subscribe", topic)
            .options(**chosen)
        )

    def _read(self, topic: str, isolation: str = "read_uncommitted", **options: str) -> list[list[str]]:
        found = self._reader(self._spark.read, topic, isolation, **options).load().collect()
        return sorted([_shown(row[column]) for column in COLUMNS] for row in found)

    def _fails(self, topic: str) -> str:
        try:
            return f"{len(self._read(topic))} rows"
        except Exception as error:
            return type(error).__name__

    def _copy(self, source: str, target: str, directory: str) -> None:
        stream = self._reader(self._spark.readStream, source, "read_committed", maxOffsetsPerTrigger="4").load()
        query = (
            stream.select("key", "value", "headers", "partition")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self._address)
            .option("topic", target)
            .option("checkpointLocation", directory)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def _shown(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode()
    if isinstance(value, list):
        return str([[header["key"], _shown(header["value"])] for header in value])
    return f"{value:06}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
