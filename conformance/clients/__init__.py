"""The client libraries behind one interface, by name. A library is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.client import Client

CLIENTS = {
    "confluent": "conformance.clients.confluent:ConfluentClient",
    "kafka-python": "conformance.clients.kafka_python:KafkaPythonClient",
    "aiokafka": "conformance.clients.aio:AioKafkaClient",
    "java-tools": "conformance.clients.java_tools:JavaToolsClient",
}


def open_client(name: str, bootstrap_servers: str) -> Client:
    module, _, class_name = CLIENTS[name].partition(":")
    client: Client = getattr(import_module(module), class_name)(bootstrap_servers)
    return client
