"""Runs classes out of Kafka's jars: its command-line tools, by the names that they have in Kafka's `bin/`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.reference.jars import CACHE, CLASS_ARCHIVE, jars

if TYPE_CHECKING:
    from collections.abc import Sequence

# A tool lives for a second: the optimizing compiler and a parallel collector would only delay it.
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
# An archive that does not fit, because the repository was moved, is worth no word on stdout.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
TOOL_TIMEOUT_S = 60.0
_LOGGING = Path(__file__).with_name("log4j2.properties")

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


def java_command(
    main_class: str, *args: str, jvm_options: Sequence[str] = FAST_START, more_jars: Sequence[Path] = ()
) -> list[str]:
    """The command line that runs a class with Kafka's jars and with logging to stderr."""
    directory = jars()[0].parent
    archive = f"-XX:SharedArchiveFile={directory / CLASS_ARCHIVE}"
    logging = f"-Dlog4j2.configurationFile={_LOGGING}"
    class_path = ":".join([f"{directory}/*", *map(str, more_jars)])
    return ["java", *_QUIET, *jvm_options, archive, logging, "-cp", class_path, main_class, *args]


def compiled(source: Path) -> Path:
    """A jar with what a file of Java declares, made once for each state of the file.

    Java runs a source file as well, but compiles it anew each time, which takes longer than the start.
    """
    class_path = f"{jars()[0].parent}/*"
    digest = hashlib.sha256(source.read_bytes() + class_path.encode()).hexdigest()[:16]
    made = CACHE / f"{source.stem}-{digest}.jar"
    if not made.exists():
        with tempfile.TemporaryDirectory() as directory:
            classes, jar = Path(directory, "classes"), Path(directory, made.name)
            subprocess.run(["javac", "-cp", class_path, "-d", classes, source], check=True, timeout=TOOL_TIMEOUT_S)
            subprocess.run(["jar", "--create", "--file", jar, "-C", classes, "."], check=True, timeout=TOOL_TIMEOUT_S)
            # Another process may do the same at the same time: the last one wins, with the same content.
            unfinished = made.with_suffix(f".{os.getpid()}")
            shutil.copy(jar, unfinished)
            unfinished.replace(made)
    return made


def run_tool(
    tool: str, *args: str, stdin: str | None = None, timeout: float = TOOL_TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Runs a tool by its name in `TOOLS`, or any class by its full name, and does not judge its exit code."""
    return subprocess.run(
        java_command(TOOLS.get(tool, tool), *args),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
