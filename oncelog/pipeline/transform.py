"""What the ETL job does to its rows: a Spark SQL file, a Python function, or nothing."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from oncelog.pipeline.config import ConfigError

VIEW = "source"


def apply_transform(rows: Any, sql: str | None, function: str | None) -> Any:
    """Rows come in with the columns of Spark's Kafka source, and go out with those of the sink."""
    if sql is not None:
        return _apply_sql(rows, sql)
    if function is not None:
        return load_function(function)(rows)
    return rows.select("key", "value")


def _apply_sql(rows: Any, path: str) -> Any:
    try:
        query = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    rows.createOrReplaceTempView(VIEW)
    return rows.sparkSession.sql(query.strip().rstrip(";"))


def load_function(name: str) -> Any:
    module_name, colon, function_name = name.partition(":")
    if not colon:
        raise ConfigError(f"{name!r} is not MODULE:NAME")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"{module_name} cannot be imported: {error}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ConfigError(f"{module_name} has no function {function_name!r}")
    return function
