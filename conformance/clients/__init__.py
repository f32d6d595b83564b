"""The client libraries behind one interface, by name. A library is imported only when it is asked for."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import TYPE_CHECKING, NamedTuple

from conformance.clients import franz_go, go, kafka_python_2, kafkajs, kcat, sarama
from conformance.clients.java import VERSIONS
from conformance.reference import jars

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.client import Client


class Entry(NamedTuple):
    """A client: its class as module:name, its version, and what it needs that the machine lacks (in one line)."""

    adapter: str
    version: Callable[[], str]
    missing: Callable[[], str | None]


def _package(name: str) -> str | None:
    try:
        package_version(name)
    except PackageNotFoundError:
        return f"{name} is not installed"
    return None


def _python(adapter: str, package: str) -> Entry:
    return Entry(f"conformance.clients.{adapter}", partial(package_version, package), partial(_package, package))


def _java(adapter: str, version: str) -> Entry:
    return Entry(f"conformance.clients.{adapter}", lambda: version, jars.missing)


CLIENTS = {
    "confluent": _python("confluent:ConfluentClient", "confluent-kafka"),
    "kafka-python": _python("kafka_python:KafkaPythonClient", "kafka-python"),
    "kafka-python-2": Entry(
        "conformance.clients.kafka_python_2:KafkaPython2Client", lambda: kafka_python_2.VERSION, kafka_python_2.missing
    ),
    "aiokafka": _python("aio:AioKafkaClient", "aiokafka"),
    "java": _java("java:JavaClient", VERSIONS["java"]),
    "java-3.9": _java("java:Java39Client", VERSIONS["java-3.9"]),
    "java-2.8": _java("java:Java28Client", VERSIONS["java-2.8"]),
    "java-tools": _java("java_tools:JavaToolsClient", jars.KAFKA_VERSION),
    "franz-go": Entry("conformance.clients.franz_go:FranzGoClient", franz_go.version, go.missing),
    "sarama": Entry("conformance.clients.sarama:SaramaClient", sarama.version, go.missing),
    "kafkajs": Entry("conformance.clients.kafkajs:KafkaJsClient", lambda: kafkajs.VERSION, kafkajs.missing),
    "kcat": Entry("conformance.clients.kcat:KcatClient", kcat.version, kcat.missing),
}


def open_client(name: str, bootstrap_servers: str) -> Client:
    module, _, class_name = CLIENTS[name].adapter.partition(":")
    client: Client = getattr(import_module(module), class_name)(bootstrap_servers)
    return client


def version_of(name: str) -> str:
    return CLIENTS[name].version()


def missing_for(name: str) -> str | None:
    """Says in one line what a client needs and the machine lacks, or returns None."""
    return CLIENTS[name].missing()
