"""Kafka's message schemas, read out of its jars.

They cover requests, responses, headers, the embedded consumer protocol and the records of internal topics.
"""

from __future__ import annotations

import functools
import json
import re
import zipfile
from typing import Any

from conformance.reference.jars import jar

ARTIFACTS = (
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-share-coordinator",
)
_DIRECTORY = "common/message/"
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')


@functools.cache
def schemas() -> dict[str, dict[str, Any]]:
    """All schemas by name, for instance `schemas()["ProduceRequest"]["fields"]`."""
    found: dict[str, dict[str, Any]] = {}
    for artifact in ARTIFACTS:
        with zipfile.ZipFile(jar(artifact)) as archive:
            for member in archive.namelist():
                if member.startswith(_DIRECTORY) and member.endswith(".json"):
                    schema = parse(archive.read(member).decode())
                    assert schema["name"] not in found, f"{schema['name']} occurs in two jars"
                    found[schema["name"]] = schema
    return found


def parse(text: str) -> dict[str, Any]:
    """Parses JSON in which `//` opens a comment, as all of Kafka's schemas have it."""
    schema: dict[str, Any] = json.loads(_STRING_OR_COMMENT.sub(lambda match: match[1] or "", text))
    return schema
