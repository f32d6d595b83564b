"""One command that shows exactly-once to a sceptic: the same job, the same kills, two sinks, one audit.

Payments are enriched from topic to topic. Driver, executor and broker are killed in turn while the job runs, once
with this project's sink and once with Spark's own. Then the audit holds both outputs against the input, and the sum
of each account against the truth.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.pipeline.archive import fast_start
from oncelog.pipeline.audit import audit, heading, summary
from oncelog.pipeline.chaos import EtlProcess, own_broker, run_with_kills
from oncelog.pipeline.etl import say
from oncelog.pipeline.evidence import CommittedReader, count_end, read_topic
from oncelog.pipeline.moments import Moment, WhileGrowing, WhileWriting
from oncelog.pipeline.payments import payment
from oncelog.pipeline.report import Course, Section, Totals, write_report
from oncelog.pipeline.session import spark_session

INPUT = "payments"
OUTPUTS = {"exactly-once": "payments-exactly-once", "spark": "payments-spark"}
KILLS = ("driver", "executor", "broker")
MASTER = "local-cluster[2,1,1024]"
BATCHES = 8
WHAT_HAPPENED = (
    "One Spark job, run twice: it reads payments from a topic, adds country and fee to each, and writes them to another"
    " topic; first with the exactly-once sink, then with Spark's own. Each time its driver, an executor and the broker"
    " are killed (SIGKILL) while a batch is being written, and started again."
)
HOW_IT_IS_KNOWN = (
    "Each output record names the input record that it came from, so that what is lost or comes twice can be counted."
    " Which records are aborted is worked out from the markers in the log, not from what the broker says about them."
)


def run_demo(flags: argparse.Namespace) -> int:
    chooser = random.Random(flags.seed)
    with own_broker(flags.broker) as broker, tempfile.TemporaryDirectory() as directory:
        servers = broker.bootstrap_servers
        _prepare(servers, flags.records, chooser)
        say(f"{flags.records} payments are in {INPUT}; the broker is {flags.broker} at {servers}")
        say("Spark is being made ready; the first time, this takes a minute or two")
        fast_start()
        courses = {sink: _run(sink, broker, flags, Path(directory), chooser) for sink in OUTPUTS}
        return _judge(servers, flags, courses)


def _prepare(servers: str, count: int, chooser: random.Random) -> None:
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(INPUT, partitions=2)
        for topic in OUTPUTS.values():
            Admin(cluster).create_topic(topic, partitions=3)
        with Producer(cluster) as producer:
            for number in range(count):
                key, value = payment(number, chooser)
                producer.produce(INPUT, value, key=key)


def _run(sink: str, broker: Any, flags: argparse.Namespace, directory: Path, chooser: random.Random) -> Course:
    servers = broker.bootstrap_servers
    arguments = ["--bootstrap", servers, "--from", INPUT, "--to", OUTPUTS[sink], "--sink", sink]
    arguments += ["--function", "oncelog.pipeline.payments:enrich", "--transactional-id", f"demo-{sink}"]
    arguments += ["--checkpoint", str(directory / sink), "--master", MASTER, "--available-now"]
    batch = max(1, flags.records // BATCHES)
    arguments += ["--max-offsets", str(batch)]
    for key, setting in fast_start().items():
        arguments += ["--spark", f"{key}={setting}"]
    etl = EtlProcess(arguments, directory / f"{sink}.log")
    kills = [KILLS[number % len(KILLS)] for number in range(flags.kills)]
    moment: Moment = WhileGrowing(servers, OUTPUTS[sink])
    if sink == "exactly-once":
        moment = WhileWriting(servers, f"demo-{sink}", OUTPUTS[sink])
    say(f"the job runs with the sink {sink!r}")
    reader = CommittedReader(servers, OUTPUTS[sink])
    reader.start()
    started = time.monotonic()
    try:
        done = run_with_kills(
            etl, broker, kills, batch, lambda: count_end(servers, OUTPUTS[sink]), chooser, say, moment
        )
    finally:
        etl.close()
        reader.stop()
    return Course(
        [(0.0, 0), *((seconds - started, count) for seconds, count in reader.history)],
        [(kill.seconds - started, kill.what) for kill in done],
        met=[kill.words for kill in done],
    )


def _judge(servers: str, flags: argparse.Namespace, courses: dict[str, Course]) -> int:
    truth, _ = _totals(servers, INPUT)
    spark = spark_session("oncelog demo", settings=fast_start())
    try:
        found = audit(
            spark, servers, INPUT, list(OUTPUTS.values()), "get_json_object(CAST(value AS STRING), '$.source')"
        )
    finally:
        spark.stop()
    sections: list[Section] = []
    by_sink: dict[str, dict[str, float]] = {}
    countries: dict[str, str] = {}
    for (sink, course), each in zip(courses.items(), found, strict=True):
        totals, countries = _totals(servers, each.topic)
        surplus = {account: totals.get(account, 0) - truth[account] for account in truth}
        wrong = sum(each != 0 for each in surplus.values())
        notes = [
            *(f"killed: {what}, {words}" for (_, what), words in zip(course.kills, course.met, strict=True)),
            f"accounts with a wrong total: {wrong} of {len(truth)}; money too much: {sum(surplus.values()):,.2f}",
        ]
        say(summary(each))
        say(f"    {notes[-1]}")
        title = "exactly-once sink" if sink == "exactly-once" else "Spark's own sink"
        by_sink[title] = totals
        sections.append(
            Section(title, each.topic, each.verdict, each.uncommitted, each.by_partition, notes, course)._replace(
                surplus=surplus, offences=each.offences
            )
        )
    notes = [WHAT_HAPPENED, HOW_IT_IS_KNOWN]
    notes += [f"{flags.records:,} payments; broker {flags.broker}; seed {flags.seed}."]
    about = heading("Exactly-once under kills", servers, found)
    write_report(Path(flags.report), about, sections, notes, Totals(countries, truth, by_sink))
    ours, theirs = (section.verdict for section in sections)
    say(f"the same job, the same kills: {ours.duplicated:,} duplicates; with Spark's own sink {theirs.duplicated:,}")
    say(f"report: {Path(flags.report).resolve()}")
    return 0 if sections[0].verdict.exactly_once else 1


def _totals(servers: str, topic: str) -> tuple[dict[str, float], dict[str, str]]:
    """What a reader of committed payments believes that each account has paid, and where it is."""
    cents: defaultdict[str, int] = defaultdict(int)
    countries: dict[str, str] = {}
    for seen in read_topic(servers, topic, Isolation.READ_COMMITTED):
        found = json.loads(seen.value)
        cents[found["account"]] += found["cents"]
        countries[found["account"]] = found.get("country", "")
    return {account: total / 100 for account, total in cents.items()}, countries
