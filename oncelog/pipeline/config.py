"""The settings of the ETL job: from flags, or from a YAML file with the same names, which flags override."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from oncelog.client.security.file import read_settings

PAIRS = ("kafka", "source_options", "sink_options", "spark")
"""The settings that are themselves names and values. Passwords may be among them."""
SINKS = ("exactly-once", "spark")


class ConfigError(Exception):
    """One line for a person."""


class EtlConfig(NamedTuple):
    bootstrap: str
    sources: list[str]
    checkpoint: str
    transactional_id: str
    pattern: str | None = None
    target: str | None = None
    sql: str | None = None
    function: str | None = None
    master: str | None = None
    sink: str = "exactly-once"
    starting: str = "earliest"
    trigger_seconds: float = 1.0
    available_now: bool = False
    max_offsets: int | None = None
    min_partitions: int | None = None
    adopt: bool = False
    kafka: dict[str, str] = {}
    """Kafka's own settings for source and sink alike, such as those of security, without a prefix."""
    source_options: dict[str, str] = {}
    sink_options: dict[str, str] = {}
    spark: dict[str, str] = {}

    def __repr__(self) -> str:
        shown = {name: names_only(value) if name in PAIRS else repr(value) for name, value in self._asdict().items()}
        return f"EtlConfig({', '.join(f'{name}={value}' for name, value in shown.items())})"


def names_only(settings: Mapping[str, str]) -> str:
    """Settings for a log or a traceback, where their values have no business."""
    return f"{{{', '.join(f'{name}=…' for name in settings)}}}"


def add_etl_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--config", metavar="FILE", help="a YAML file with these settings; flags override it")
    add("--bootstrap", metavar="HOST:PORT", help="the Kafka cluster")
    add("--from", dest="sources", metavar="TOPIC[,TOPIC]", help="topics to read, committed records only")
    add("--pattern", metavar="REGEX", help="read all topics that match, instead of --from")
    add("--to", dest="target", metavar="TOPIC", help="topic to write; without it the rows have a column `topic`")
    add("--sql", metavar="FILE", help="a Spark SQL query over the view `source`")
    add("--function", metavar="MODULE:NAME", help="a Python function from DataFrame to DataFrame, instead of --sql")
    add("--transactional-id", metavar="ID", help="names the pipeline; also the group that shows its lag")
    add("--checkpoint", metavar="DIR", help="where Spark keeps its progress")
    add("--master", metavar="URL", help="Spark's master (default: local[2]); spark-submit's stands")
    add("--sink", choices=SINKS, help="`spark` is Spark's own sink, which is at-least-once")
    add("--starting", metavar="WHERE", help="earliest, latest or Spark's JSON, for a new checkpoint")
    add("--trigger-seconds", type=float, metavar="S", help="a batch at most every S seconds (default: 1)")
    add("--available-now", action="store_const", const=True, help="stop when all that is there now is done")
    add("--max-offsets", type=int, metavar="N", help="at most N records in a batch")
    add("--min-partitions", type=int, metavar="N", help="read with at least N tasks")
    add("--adopt", action="store_const", const=True, help="begin anew under an id that another checkpoint used")
    add_command_config(parser)
    pairs = {
        "--kafka": (
            "kafka",
            "a setting of Kafka for source and sink, such as security.protocol=SSL; not for secrets,"
            " which the list of processes would show: they belong into --command-config",
        ),
        "--source-option": ("source_options", "an option of the source"),
        "--sink-option": ("sink_options", "an option of the sink"),
        "--spark": ("spark", "a setting of the Spark session"),
    }
    for flag, (name, what) in pairs.items():
        add(flag, dest=name, action="append", metavar="KEY=VALUE", help=f"{what}; may be repeated")


def add_command_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="a properties file as Kafka's tools take it; its security.*, ssl.* and sasl.* settings are used",
    )


def read_command_config(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return read_settings(Path(path))
    except ValueError as error:
        raise ConfigError(f"--command-config: {error}") from None


def with_prefix(settings: Mapping[str, str]) -> dict[str, str]:
    """As Spark's connector and the sink want them."""
    return {f"kafka.{name.removeprefix('kafka.')}": value for name, value in settings.items()}


def parse_etl(flags: argparse.Namespace) -> EtlConfig:
    values = _read_yaml(flags.config) if flags.config else {}
    given = {name: value for name, value in vars(flags).items() if value is not None}
    for name in PAIRS:
        values[name] = _pairs(name, values.get(name) or {}) | _pairs(name, given.pop(name, []))
    file = given.pop("command_config", values.pop("command_config", None))
    values["kafka"] = read_command_config(file) | values["kafka"]
    values |= {name: value for name, value in given.items() if name in EtlConfig._fields}
    sources = values.get("sources") or []
    values["sources"] = sources.split(",") if isinstance(sources, str) else list(sources)
    for name in ("bootstrap", "checkpoint", "transactional_id"):
        if not values.get(name):
            raise ConfigError(f"--{name.replace('_', '-')} is missing")
    config = EtlConfig(**values)
    if bool(config.sources) == bool(config.pattern):
        raise ConfigError("give either --from or --pattern")
    if config.sql and config.function:
        raise ConfigError("give either --sql or --function")
    if config.sink not in SINKS:
        raise ConfigError(f"the sink is one of {', '.join(SINKS)}, not {config.sink!r}")
    return config


def _read_yaml(path: str) -> dict[str, Any]:
    import yaml

    try:
        read = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(read, dict):
        raise ConfigError(f"{path} must hold names and values")
    names = {"from": "sources", "to": "target"}
    found = {names.get(key, str(key).replace("-", "_")): value for key, value in read.items()}
    unknown = sorted(set(found) - set(EtlConfig._fields) - {"command_config"})
    if unknown:
        raise ConfigError(f"{path} has a setting that is not known: {unknown[0]}")
    return found


def _pairs(name: str, given: Any) -> dict[str, str]:
    if isinstance(given, dict):
        return {str(key): str(value) for key, value in given.items()}
    pairs: dict[str, str] = {}
    if not isinstance(given, list):
        raise ConfigError(f"{name} must hold names and values")
    for each in given:
        key, equals, value = str(each).partition("=")
        if not equals or len(key.split()) != 1:
            # The rest may be a password.
            start = re.split(r"[^\w.-]", key, maxsplit=1)[0]
            raise ConfigError(f"{name.rstrip('s')}: what begins with {start!r} is not KEY=VALUE")
        pairs[key] = value
    return pairs
