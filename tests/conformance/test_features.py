"""The table of features says what Apache Kafka says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from conformance.reference.tools import run_tool
from oncelog.broker.metadata.features import FEATURES, METADATA_VERSION, Feature

if TYPE_CHECKING:
    from conformance.reference.kafka import ApacheKafka

pytestmark = pytest.mark.java

# The tool prints metadata versions by name.
METADATA_VERSION_NAMES = {"3.3-IV3": 7, "4.3-IV0": 30}
NOT_IMPLEMENTED = {"share.version", "streams.version", "eligible.leader.replicas.version"}
LINE = re.compile(
    r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)"
)


def test_the_table_is_that_of_a_fresh_kafka(apache_kafka: ApacheKafka) -> None:
    bootstrap = ("--bootstrap-server", apache_kafka.bootstrap_servers)
    described = run_tool("kafka-features", *bootstrap, "describe")
    assert described.returncode == 0, described.stderr
    found = {}
    for name, *levels in LINE.findall(described.stdout):
        names = METADATA_VERSION_NAMES if name == METADATA_VERSION else {}
        found[name] = Feature(*(names[level] if names else int(level) for level in levels))
    assert found.keys() >= NOT_IMPLEMENTED
    assert {name: feature for name, feature in found.items() if name not in NOT_IMPLEMENTED} == FEATURES
