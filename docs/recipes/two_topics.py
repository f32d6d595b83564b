"""One micro-batch into two topics with different schemas, in one transaction. A column `topic` tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def orders_and_alerts(orders: DataFrame) -> DataFrame:
    """Every order goes to `orders-clean`, and one above 1,000 to `order-alerts` as well, in another form.

    The sink is made without `topic=`: exactly_once_sink("localhost:9092", transactional_id="orders-etl")
    """
    clean = orders.selectExpr("'orders-clean' AS topic", "id AS key", "to_json(struct(id, amount)) AS value")
    alerts = orders.where("amount > 1000").selectExpr(
        "'order-alerts' AS topic", "customer AS key", "concat('order ', id, ' is over 1000') AS value"
    )
    return clean.unionByName(alerts)
