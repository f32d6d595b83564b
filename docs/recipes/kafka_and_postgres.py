"""The same micro-batch into Kafka and into PostgreSQL, each exactly once.

Each of the two recognises a batch that Spark repeats: the sink by its transaction in Kafka, the database by a table of
batches, which is written in the same transaction as the rows. Kafka goes first: the sink refuses a checkpoint that is
older than the output, and then nothing is written here either.

The two transactions end one after the other, so that for a moment a batch is in Kafka and not yet in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg

from oncelog.spark import ExactlyOnceSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLES = """
CREATE TABLE IF NOT EXISTS batches (query text, batch bigint, PRIMARY KEY (query, batch));
CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, amount bigint NOT NULL);
"""


def kafka_and_postgres(sink: ExactlyOnceSink, database: str) -> Callable[[DataFrame, int], None]:
    """For `writeStream.foreachBatch`; the rows have the columns `id` and `amount`."""
    with psycopg.connect(database) as connection:
        connection.execute(TABLES)

    def write(batch: DataFrame, batch_id: int) -> None:
        # Both must get the same rows, also if the query is not deterministic.
        rows = batch.persist()
        try:
            sink(rows.selectExpr("id AS key", "to_json(struct(id, amount)) AS value"), batch_id)
            assert sink.last_report is not None
            write_postgres(rows, database, sink.last_report.query_id, batch_id)
        finally:
            rows.unpersist()

    return write


def write_postgres(rows: DataFrame, database: str, query_id: str, batch_id: int) -> None:
    """One transaction: the number of the batch and its rows, or neither."""
    with psycopg.connect(database) as connection:
        noted = connection.execute("INSERT INTO batches VALUES (%s, %s) ON CONFLICT DO NOTHING", (query_id, batch_id))
        if not noted.rowcount:
            return
        with connection.cursor().copy("COPY orders (id, amount) FROM STDIN") as copy:
            for row in rows.select("id", "amount").toLocalIterator():
                copy.write_row((row["id"], row["amount"]))
