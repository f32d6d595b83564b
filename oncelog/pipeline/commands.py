"""The commands: `oncelog pipeline etl | audit | demo | measure | jars | program`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from oncelog.pipeline.config import ConfigError, add_command_config, add_etl_flags, parse_etl
from oncelog.pipeline.jars import JarsMissing, connector_jars

EXTRA_PACKAGES = frozenset({"matplotlib", "numpy", "pandas", "psutil", "pyarrow", "pyspark", "yaml"})
PROGRAM = Path(__file__).with_name("__main__.py")
"""What spark-submit takes."""


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code; argparse itself exits after --help and for a wrong flag."""
    flags = _parser().parse_args(arguments)
    try:
        return run(flags)
    except (ConfigError, JarsMissing) as error:
        print(f"{flags.verb}: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA_PACKAGES:
            raise
        print(f"{flags.verb}: {error.name} is not installed: pip install 'oncelog[pipeline]'", file=sys.stderr)
        return 2


def run_as_program(arguments: list[str] | None = None) -> int:
    """Whatever a command has started (a broker, other jobs) ends with it. `etl` replaces the handler by its own."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return main(arguments)
    finally:
        signal.signal(signal.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    what = "Spark jobs from topic to topic, exactly once."
    parser = argparse.ArgumentParser(prog="oncelog pipeline", description=what)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    add_etl_flags(verbs.add_parser("etl", help="consume, transform, produce, exactly once"))
    audit = verbs.add_parser("audit", help="prove a run: what was lost, duplicated, aborted, out of order")
    audit.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    audit.add_argument("--input", required=True, metavar="TOPIC")
    audit.add_argument("--output", required=True, metavar="TOPIC[,TOPIC]", help="several are compared in one report")
    audit.add_argument(
        "--output-id",
        default="CAST(value AS STRING)",
        metavar="SQL",
        help="gives PARTITION:OFFSET of the input record that an output record came from",
    )
    add_command_config(audit)
    audit.add_argument("--report", default="audit.html", metavar="FILE")
    kills = "marks them in the plot; lines such as `2026-11-18T21:04:05+00:00 driver`"
    audit.add_argument("--kills", metavar="FILE", help=kills)
    audit.add_argument("--master", metavar="URL")
    demo = verbs.add_parser("demo", help="payments, kills, and the audit of both sinks")
    demo.add_argument("--broker", choices=("oncelog", "apache"), default="oncelog")
    demo.add_argument("--records", type=int, default=30_000)
    demo.add_argument("--kills", type=int, default=3, help="of each sink's run: driver, executor and broker in turn")
    demo.add_argument("--report", default="demo-report.html", metavar="FILE")
    demo.add_argument("--seed", type=int, default=1)
    measure = verbs.add_parser("measure", help="rows per second, beside Spark's own sink")
    measure.add_argument("--bootstrap", metavar="HOST:PORT", help="a running broker, instead of one for the occasion")
    measure.add_argument("--broker", choices=("oncelog", "apache"), default="oncelog")
    measure.add_argument("--rows", type=int, default=100_000, help="in a batch")
    measure.add_argument("--batches", type=int, default=4)
    measure.add_argument("--turns", type=int, default=3, help="of each sink, after one to warm up")
    measure.add_argument("--partitions", type=int, nargs="+", default=[1, 4, 100], metavar="N", help="of the output")
    measure.add_argument("--value-size", type=int, default=200, metavar="BYTES")
    measure.add_argument("--fsync", action="store_true", help="Oncelog fsyncs before each ack; Apache Kafka never does")
    measure.add_argument("--master", metavar="URL")
    verbs.add_parser("jars", help="bring the jars of Spark's Kafka connector, and print them for spark-submit --jars")
    verbs.add_parser("program", help="print the path of this program for spark-submit")
    return parser


def run(flags: argparse.Namespace) -> int:
    if flags.verb == "etl":
        config = parse_etl(flags)
        from oncelog.pipeline.etl import run_etl

        return run_etl(config)
    if flags.verb == "audit":
        from oncelog.pipeline.audit import run_audit

        return run_audit(flags)
    if flags.verb == "measure":
        from oncelog.pipeline.measure import run_measure

        return run_measure(flags)
    if flags.verb == "jars":
        print(",".join(str(jar) for jar in connector_jars()))
        return 0
    if flags.verb == "program":
        print(PROGRAM)
        return 0
    from oncelog.pipeline.demo import run_demo

    return run_demo(flags)
