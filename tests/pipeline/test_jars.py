"""Which connector is taken for which Spark."""

from __future__ import annotations

import pytest

from oncelog.pipeline.jars import (
    JarsMissing,
    choose_connector,
    connector_jars,
    installed_spark,
    missing,
)

AVAILABLE = ["4.0.0", "4.0.9", "4.0.10", "4.2.0"]


@pytest.mark.parametrize(("spark", "connector"), [("4.0.3", "4.0.10"), ("4.2.7", "4.2.0"), ("4.2.0.dev1", "4.2.0")])
def test_the_newest_of_the_same_line_is_taken(spark: str, connector: str) -> None:
    assert choose_connector(spark, AVAILABLE) == connector


def test_that_of_another_line_is_not_taken() -> None:
    with pytest.raises(
        JarsMissing, match=r"no Kafka connector of Spark 4\.1\.0, only of 4\.0\.0, 4\.0\.9, .* 4\.2\.0:"
    ):
        choose_connector("4.1.0", AVAILABLE)


@pytest.mark.spark
def test_maven_says_which_there_are() -> None:
    """A version that nobody will release is asked for, so that Maven is really asked."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with pytest.raises(JarsMissing) as caught:
        connector_jars("4.99.0")
    if "could not bring" in str(caught.value):
        pytest.skip("Maven's repository cannot be reached")
    assert str(caught.value).startswith("Maven has no Kafka connector of Spark 4.99.0, only of 4.0.0")


@pytest.mark.spark
def test_the_jars_are_of_the_installed_spark() -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    names = [path.name for path in connector_jars()]
    line = ".".join(installed_spark().split(".")[:2])
    assert len(names) == 4
    assert [name for name in names if name.startswith("spark-")] == sorted(
        name for name in names if f"_2.13-{line}." in name
    )
