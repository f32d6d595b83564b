"""kafka-python as an oracle: it makes its codecs at run time from its own copies of Kafka's schemas."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any


@cache
def kafka_python_messages() -> dict[str, Any]:
    """Its message classes by name, for instance `FetchRequest`."""
    with warnings.catch_warnings():
        # It reads its schemas in a way that is deprecated in Python 3.11 only.
        warnings.simplefilter("ignore", DeprecationWarning)
        modules = [
            import_module(f"kafka.protocol.{name}") for name in ("admin", "consumer", "metadata", "producer", "sasl")
        ]
    found = (value for module in modules for value in vars(module).values())
    return {value.__name__: value for value in found if isinstance(value, type) and hasattr(value, "max_version")}


def recode(name: str, version: int, encoded: bytes) -> bytes:
    """What kafka-python writes after reading `encoded`."""
    message = kafka_python_messages()[name].decode(encoded, version=version, header=False)
    # A message that was decoded lacks the attribute, and the encoder looks at it.
    message._header = None
    return bytes(message.encode(version=version, header=False))
