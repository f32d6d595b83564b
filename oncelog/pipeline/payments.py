"""The demonstration's job: payments, enriched with what is known about the account."""

from __future__ import annotations

import json
import random
from typing import Any

ACCOUNTS = 50
COUNTRIES = ("AT", "DE", "FR", "IT", "NL", "PL")


def payment(number: int, chooser: random.Random) -> tuple[bytes, bytes]:
    """Key and value of one payment."""
    account = f"account-{chooser.randrange(ACCOUNTS):03d}"
    value = {"payment": number, "account": account, "cents": chooser.randrange(1, 100_000)}
    return account.encode(), json.dumps(value).encode()


def enrich(rows: Any) -> Any:
    """Adds country and fee, and the input record that the payment came from."""
    from pyspark.sql.functions import col, concat_ws, expr, from_json, struct, to_json

    countries = ", ".join(f"'{country}'" for country in COUNTRIES)
    parsed = rows.withColumn("p", from_json(col("value").cast("string"), "payment long, account string, cents long"))
    enriched = struct(
        "p.*",
        expr(f"element_at(array({countries}), 1 + pmod(hash(p.account), {len(COUNTRIES)}))").alias("country"),
        expr("CAST(p.cents * 0.015 AS LONG)").alias("fee_cents"),
        concat_ws(":", "partition", "offset").alias("source"),
    )
    return parsed.select("key", to_json(enriched).alias("value"))
