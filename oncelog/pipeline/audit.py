"""Proves a run: holds output topics against their input, in a Spark batch job, and writes a report.

An output record names the input record it came from, as `PARTITION:OFFSET` (the SQL expression `--output-id`). From
that follow the records that were lost, came twice, came from nowhere, or stand in the wrong order. Both isolation
levels are read; the difference between them are the aborted records, and these are held against the markers in the
log itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from oncelog.client.offsets import Isolation
from oncelog.client.security.options import SecurityOptions, parse_security
from oncelog.pipeline.config import ConfigError, names_only, read_command_config, with_prefix
from oncelog.pipeline.evidence import read_log, transactional_ids
from oncelog.pipeline.report import Course, Heading, Section, write_report
from oncelog.pipeline.session import spark_session
from oncelog.pipeline.verdict import Offence, Seen, Verdict, count_offences, find_offences

COURSE_POINTS_MAX = 2_000


class Audit(NamedTuple):
    topic: str
    verdict: Verdict
    uncommitted: int
    """How many records a reader without isolation sees."""
    by_partition: dict[int, tuple[int, int]]
    """Visible and aborted records of each partition."""
    offences: list[Offence]
    transactional_ids: list[str]
    """Who wrote the topic, as far as the broker still knows it."""
    written_ms: list[int]
    """The timestamps of the visible records, in their order."""
    aborts_ms: list[int]


class KillNote(NamedTuple):
    """A line of the file `--kills`: `2026-11-18T21:04:05+00:00 driver`."""

    time_s: float
    what: str


def run_audit(flags: argparse.Namespace) -> int:
    kafka = read_command_config(flags.command_config)
    # What is wrong with the settings is told before Spark is started.
    _parse_security(kafka)
    kills = read_kills(flags.kills) if flags.kills else []
    spark = spark_session("oncelog audit", master=flags.master)
    try:
        audits = audit(spark, flags.bootstrap, flags.input, flags.output.split(","), flags.output_id, kafka)
    finally:
        spark.stop()
    for each in audits:
        print(summary(each))
    sections = [
        Section(
            each.topic, each.topic, each.verdict, each.uncommitted, each.by_partition, offences=each.offences,
            course=course(each, kills),
        )
        for each in audits
    ]  # fmt: skip
    write_report(Path(flags.report), heading(f"Audit of {flags.input}", flags.bootstrap, audits), sections)
    print(f"report: {Path(flags.report).resolve()}")
    return 0 if all(each.verdict.exactly_once for each in audits) else 1


def heading(title: str, bootstrap: str, audits: Sequence[Audit]) -> Heading:
    writers = sorted({name for each in audits for name in each.transactional_ids})
    facts = {"broker": bootstrap, "time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")}
    return Heading(title, facts | {"transactional id": ", ".join(writers) or "none that the broker knows"})


def read_kills(path: str) -> list[KillNote]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"--kills: {path} cannot be read: {error.strerror}") from None
    found = []
    for line in lines:
        time, _, what = line.strip().partition(" ")
        try:
            found.append(KillNote(datetime.fromisoformat(time).timestamp(), what))
        except ValueError:
            raise ConfigError(f"--kills: {line!r} is not a time in ISO 8601 and what was killed") from None
    return found


def course(audit: Audit, kills: Sequence[KillNote]) -> Course | None:
    """Progress by the timestamps of the records; None if there are none."""
    if not audit.written_ms:
        return None
    began = min([audit.written_ms[0] / 1000, *(kill.time_s for kill in kills)])
    steps = [(time_ms / 1000 - began, count) for count, time_ms in enumerate(audit.written_ms, start=1)]
    # More points than a plot has pixels would only make a large file.
    kept = steps[:: max(1, len(steps) // COURSE_POINTS_MAX)]
    return Course(
        [(0.0, 0), *kept, steps[-1]],
        [(kill.time_s - began, kill.what) for kill in kills],
        [time_ms / 1000 - began for time_ms in audit.aborts_ms],
        title="Visible records, by the time at which they were written",
    )


def audit(
    spark: Any,
    bootstrap: str,
    source: str,
    targets: list[str],
    output_id: str,
    kafka: Mapping[str, str] = MappingProxyType({}),
) -> list[Audit]:
    """`kafka` has the settings of security."""
    cluster = SourceCluster(spark, bootstrap, kafka, _parse_security(kafka))
    expected = [f"{row[0]}:{row[1]}" for row in _read(cluster, source, Isolation.READ_COMMITTED).collect()]
    return [_audit_topic(cluster, target, expected, output_id) for target in targets]


def _parse_security(kafka: Mapping[str, str]) -> SecurityOptions:
    try:
        return parse_security(kafka)
    except ValueError as error:
        raise ConfigError(str(error)) from None


class SourceCluster(NamedTuple):
    """Where the topics are, for Spark and for this project's own client."""

    spark: Any
    bootstrap: str
    kafka: Mapping[str, str]
    security: SecurityOptions

    def __repr__(self) -> str:
        return f"SourceCluster({self.bootstrap}, {names_only(self.kafka)})"


def _audit_topic(cluster: SourceCluster, target: str, expected: list[str], output_id: str) -> Audit:
    from pyspark.errors import PySparkException

    frame = _read(cluster, target, Isolation.READ_COMMITTED)
    try:
        wanted = ("partition", "offset", f"CAST({output_id} AS STRING) AS id", "unix_millis(timestamp) AS time_ms")
        rows = frame.selectExpr(*wanted).collect()
    except PySparkException as error:
        raise ConfigError(f"--output-id: {str(error).splitlines()[0]}") from None
    committed = [Seen(row[0], row[1], (row[2] or "").encode()) for row in rows]
    log = read_log(cluster.bootstrap, target, cluster.security)
    aborted = log.aborted
    offences = find_offences(expected, committed, [row[2] or "" for row in rows], aborted)
    verdict = count_offences(offences, len(expected), len(committed), len(aborted))
    by_partition: dict[int, tuple[int, int]] = {}
    for partition in {seen.partition for seen in committed} | {partition for partition, _ in aborted}:
        visible = sum(seen.partition == partition for seen in committed)
        by_partition[partition] = (visible, sum(each[0] == partition for each in aborted))
    uncommitted = _read(cluster, target, Isolation.READ_UNCOMMITTED).count()
    return Audit(
        target,
        verdict,
        int(uncommitted),
        dict(sorted(by_partition.items())),
        offences,
        transactional_ids(cluster.bootstrap, log.producer_ids, cluster.security),
        sorted(row[3] for row in rows),
        sorted(log.aborts_ms),
    )


def _read(cluster: SourceCluster, topic: str, isolation: Isolation) -> Any:
    reader = cluster.spark.read.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    reader = reader.options(**with_prefix(cluster.kafka)).option("subscribe", topic)
    reader = reader.option("kafka.isolation.level", isolation.name.lower()).option("includeHeaders", "true")
    return reader.load().select("partition", "offset", "key", "value", "headers", "timestamp")


def summary(audit: Audit) -> str:
    verdict = audit.verdict
    word = "exactly once" if verdict.exactly_once else "NOT exactly once"
    return (
        f"{audit.topic}: {word}: {verdict.expected} expected, {verdict.visible} visible, {verdict.lost} lost,"
        f" {verdict.duplicated} duplicated, {verdict.unexpected} unexpected, {verdict.aborted} aborted of which"
        f" {verdict.aborted_visible} visible, {verdict.out_of_order} out of order"
    )
