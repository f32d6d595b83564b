"""The sink and the job with Kafka's security settings. Only the last two tests start Spark."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer, Start
from oncelog.client.producer import Producer
from oncelog.client.security.options import parse_security
from oncelog.pipeline.audit import audit
from oncelog.pipeline.commands import PROGRAM
from oncelog.pipeline.config import add_etl_flags, parse_etl
from oncelog.pipeline.etl import make_sink, start_query
from oncelog.spark import SinkError, exactly_once_sink
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.options import SinkOptions, parse_options
from oncelog.spark.transaction import Transactions
from tests.client.security.secured import Secured

SECRET = "s3cret"
TRACE = PROGRAM.with_name("sql") / "trace.sql"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{SECRET}";'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}


def sink_options(settings: dict[str, str]) -> SinkOptions:
    return parse_options("host:9092", "t", "out", False, {f"kafka.{name}": value for name, value in settings.items()})


def test_the_sink_takes_them_with_its_prefix() -> None:
    options = sink_options(SASL)
    assert options.security == parse_security(SASL)
    restored: SinkOptions = pickle.loads(pickle.dumps(options))
    assert restored == options
    assert SECRET not in repr(options)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.jaas.config": JAAS}, "^kafka.sasl.jaas.config has no use"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/no/such"},
            "^kafka.ssl.truststore.location /no/such: No",
        ),
    ],
)
def test_the_sink_refuses_before_a_query_starts(settings: dict[str, str], words: str) -> None:
    with pytest.raises(SinkError, match=words) as caught:
        sink_options(settings)
    assert SECRET not in str(caught.value)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.kafka:
        yield made


@pytest.mark.java
@pytest.mark.parametrize(("listener", "mechanism"), [("MUTUAL", ""), ("BOTH", "SCRAM-SHA-256")])
def test_the_sinks_transactions(secured: Secured, listener: str, mechanism: str) -> None:
    settings = {f"kafka.{name}": value for name, value in secured.settings(listener, mechanism).items()}
    given = parse_options(str(secured.address(listener)), f"sink-{listener}", "out", False, settings)
    # As executors get them.
    options = pickle.loads(pickle.dumps(given))
    with SinkCluster.open(options) as cluster:
        transactions = Transactions(cluster, options)
        first = transactions.fence()
        assert transactions.fence().epoch == first.epoch + 1


@pytest.mark.java
@pytest.mark.spark
def test_a_batch_of_spark(secured: Secured, spark: Any) -> None:
    settings = secured.settings("BOTH", "SCRAM-SHA-256")
    bootstrap = str(secured.address("BOTH"))
    kafka = {f"kafka.{name}": value for name, value in settings.items()}
    with Cluster(bootstrap, security=parse_security(settings)) as cluster:
        Admin(cluster).create_topic("secured", partitions=2)
        given = exactly_once_sink(bootstrap, transactional_id="secured", topic="secured", **kafka)
        with contextlib.closing(given) as sink:
            sink(spark.range(20).selectExpr("cast(id as string) as value"), 0)
        # Apache Kafka answers before the outcome can be read.
        records = Consumer(cluster, "secured", start=Start.earliest()).records(follow=True)
        consumed = itertools.islice(records, 20)
        assert sorted(int(each.record.value or b"") for each in consumed) == list(range(20))


@pytest.mark.usefixtures("connector")
@pytest.mark.java
@pytest.mark.spark
def test_the_job_and_its_audit(secured: Secured, spark: Any, tmp_path: Path) -> None:
    # Java's client does not recognise the kind of a file by itself.
    settings = secured.settings("BOTH", "SCRAM-SHA-512") | {"ssl.truststore.type": "PEM"}
    properties, bootstrap = tmp_path / "client.properties", str(secured.address("BOTH"))
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with Cluster(bootstrap, security=parse_security(settings)) as cluster:
        for topic in ("job-in", "job-out"):
            Admin(cluster).create_topic(topic, partitions=2)
        with Producer(cluster) as producer:
            for number in range(30):
                producer.produce("job-in", b"%d" % number)
    parser = argparse.ArgumentParser()
    add_etl_flags(parser)
    arguments = ["--bootstrap", bootstrap, "--from", "job-in", "--to", "job-out", "--sql", str(TRACE)]
    arguments += ["--transactional-id", "job", "--checkpoint", str(tmp_path / "checkpoint"), "--available-now"]
    config = parse_etl(parser.parse_args([*arguments, "--command-config", str(properties)]))
    assert start_query(spark, config, make_sink(config)).awaitTermination(200)
    (found,) = audit(spark, bootstrap, "job-in", ["job-out"], "CAST(value AS STRING)", settings)
    assert found.verdict.exactly_once
    assert found.verdict.expected == 30
