"""The client libraries behind one interface, by name. A library is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from conformance.clients import franz_go, kafkajs
from conformance.clients.java import VERSIONS
from conformance.reference.jars import KAFKA_VERSION, missing

if TYPE_CHECKING:
    from conformance.client import Client

CLIENTS = {
    "confluent": "conformance.clients.confluent:ConfluentClient",
    "kafka-python": "conformance.clients.kafka_python:KafkaPythonClient",
    "aiokafka": "conformance.clients.aio:AioKafkaClient",
    "java": "conformance.clients.java:JavaClient",
    "java-tools": "conformance.clients.java_tools:JavaToolsClient",
    "java-3.9": "conformance.clients.java:Java39Client",
    "java-2.8": "conformance.clients.java:Java28Client",
    "franz-go": "conformance.clients.franz_go:FranzGoClient",
    "kafkajs": "conformance.clients.kafkajs:KafkaJsClient",
}
_PACKAGES = {"confluent": "confluent-kafka", "kafka-python": "kafka-python", "aiokafka": "aiokafka"}


def open_client(name: str, bootstrap_servers: str) -> Client:
    module, _, class_name = CLIENTS[name].partition(":")
    client: Client = getattr(import_module(module), class_name)(bootstrap_servers)
    return client


def version_of(name: str) -> str:
    if name in _PACKAGES:
        return version(_PACKAGES[name])
    if name == "franz-go":
        return franz_go.version()
    if name == "kafkajs":
        return kafkajs.VERSION
    return VERSIONS.get(name, KAFKA_VERSION)


def missing_for(name: str) -> str | None:
    """Says in one line what a client needs and the machine lacks, or returns None."""
    if name == "franz-go":
        return franz_go.missing()
    if name == "kafkajs":
        return kafkajs.missing()
    if name not in _PACKAGES:
        return missing()
    try:
        version(_PACKAGES[name])
    except PackageNotFoundError:
        return f"{_PACKAGES[name]} is not installed"
    return None
