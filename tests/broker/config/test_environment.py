"""Variables as the images of Kafka take them, and as compose files in the wild set them."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.broker.config import ConfigError
from oncelog.broker.config.broker_config import InitialTopic
from oncelog.broker.config.environment import setting_name
from oncelog.broker.config.listeners import resolve_listeners
from oncelog.broker.config.load import load_config


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("NUM_PARTITIONS", "num.partitions"),
        ("LISTENER_NAME_CLIENT_PLAIN_SASL_JAAS_CONFIG", "listener.name.client.plain.sasl.jaas.config"),
        ("A__B", "a_b"),
        ("A___B", "a-b"),
        ("SASL__SSL_SCRAM___SHA___256_X", "sasl_ssl.scram-sha-256.x"),
    ],
)
def test_variables_are_named_as_in_kafkas_image(variable: str, name: str) -> None:
    assert setting_name(variable) == name


def test_variables_that_are_no_settings_are_left_alone() -> None:
    config = load_config(
        environment={
            "KAFKA_OPTS": "-X",
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "KAFKA_JMX_PORT": "9999",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
            "KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:9093",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
            "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CONFLUENT_BALANCER_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CONFLUENT_SCHEMA_REGISTRY_URL": "http://schema-registry:8081",
            "KAFKA_ENABLE_KRAFT": "yes",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
            "CONFLUENT_METRICS_REPORTER_BOOTSTRAP_SERVERS": "broker:29092",
            "KAFKA_HOME": "/opt",
            "KAFKA_BROKER": "localhost:9092",
            "KAFKA_BOOTSTRAP_SERVERS": "localhost:9092",
            "KAFKA_SASL_MECHANISM": "PLAIN",
            "KAFKA_SERVICE_HOST": "10.0.0.1",
            "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        }
    )
    assert config.static == {}
    assert config.notes == ()


def addresses(environment: dict[str, str], *options: str) -> tuple[list[str], list[str]]:
    """Where a broker listens and what it tells clients."""
    found = resolve_listeners(load_config(environment=environment, options=options))
    return [str(address) for address in found.bound], [str(address) for address in found.advertised.values()]


def test_a_broker_listens_where_it_tells_clients_to_connect_to() -> None:
    """As in the images of apache and confluentinc."""
    advertised = "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:19092"
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": advertised,
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    }
    bound = ["PLAINTEXT://0.0.0.0:29092", "PLAINTEXT_HOST://0.0.0.0:19092"]
    assert addresses(environment) == (bound, advertised.split(","))


def test_ipv6_hosts_are_replaced_too() -> None:
    assert addresses({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://[fe80::1]:9095"})[0] == ["PLAINTEXT://[::]:9095"]


@pytest.mark.parametrize(
    ("port", "address"), [({}, "localhost:9092"), ({"KAFKA_ADVERTISED_PORT": "19092"}, "localhost:19092")]
)
def test_an_address_as_wurstmeisters_image_takes_it(port: dict[str, str], address: str) -> None:
    environment = {"KAFKA_ADVERTISED_HOST_NAME": "localhost", **port}
    bound = f"PLAINTEXT://{address.replace('localhost', '0.0.0.0')}"
    assert addresses(environment) == ([bound], [f"PLAINTEXT://{address}"])
    assert load_config(environment=environment).notes == ()
    newer = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092"}
    assert addresses(environment | newer)[1] == ["PLAINTEXT://broker:29092"]


@pytest.mark.parametrize(
    ("environment", "options", "bound"),
    [
        ({"KAFKA_LISTENERS": "PLAINTEXT://:9093"}, [], "PLAINTEXT://:9093"),
        ({"ONCELOG_LISTENERS": "PLAINTEXT://:9094"}, [], "PLAINTEXT://:9094"),
        ({}, ["listeners=PLAINTEXT://:9095"], "PLAINTEXT://:9095"),
    ],
)
def test_listeners_that_are_set_stand(environment: dict[str, str], options: list[str], bound: str) -> None:
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092"}
    assert addresses(environment | advertised, *options) == ([bound], ["PLAINTEXT://broker:29092"])


def test_empty_advertised_listeners_say_nothing() -> None:
    assert addresses({"KAFKA_ADVERTISED_LISTENERS": ""})[0] == ["PLAINTEXT://127.0.0.1:9092"]


def test_a_listener_of_the_environment_overrides_the_file(tmp_path: Path) -> None:
    """So the image's defaults do not stand in the way of a compose file."""
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://0.0.0.0:9092\nlog.dirs=/var/lib/oncelog\n")
    config = load_config(file=file, environment={"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:19092"})
    assert config.list("listeners") == ["PLAINTEXT://0.0.0.0:19092"]
    assert config.data_dir == "/var/lib/oncelog"


def test_variables_of_bitnami() -> None:
    config = load_config(
        environment={
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_NUM_PARTITIONS": "3",
            "KAFKA_NUM_PARTITIONS": "2",
            "KAFKA_CFG_COLOUR": "red",
            "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstuv",
        }
    )
    assert (config.node_id, config.int("num.partitions")) == (0, 3)
    assert [str(address) for address in resolve_listeners(config).bound] == ["PLAINTEXT://:9092"]
    assert config.initial.cluster_id == "abcdefghijklmnopqrstuv"
    assert "KAFKA_CFG_COLOUR has no effect: there is no setting colour" in config.notes
    with pytest.raises(ConfigError, match="from environment KAFKA_CFG_NUM_PARTITONS"):
        load_config(environment={"KAFKA_CFG_NUM_PARTITONS": "1"})


def test_the_id_of_a_new_cluster() -> None:
    assert load_config().initial.cluster_id == ""
    environment = {"KAFKA_KRAFT_CLUSTER_ID": "a", "KAFKA_CLUSTER_ID": "b"}
    assert load_config(environment=environment).initial.cluster_id == "b"
    config = load_config(environment=environment | {"CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"})
    assert config.initial.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert config.with_overrides({}, {}).initial == config.initial
    config = load_config(environment={"CLUSTER_ID": "two words"})
    assert config.initial.cluster_id == ""
    assert config.notes == ('CLUSTER_ID has no effect: "two words" cannot be the id of a cluster',)


def test_topics_to_create() -> None:
    topics = load_config(environment={"KAFKA_CREATE_TOPICS": "a:1:3, b:12:1:compact,c,d:2 ,"}).initial.topics
    assert topics == (
        InitialTopic("a", 1, 3),
        InitialTopic("b", 12, 1, "compact"),
        InitialTopic("c"),
        InitialTopic("d", 2),
    )
    lines = {"KAFKA_CREATE_TOPICS": "a:1:1\nb:1:1:compact,delete\n", "KAFKA_CREATE_TOPICS_SEPARATOR": "\n"}
    assert load_config(environment=lines).initial.topics == (
        InitialTopic("a"),
        InitialTopic("b", cleanup_policy="compact,delete"),
    )
    # As a compose file gives it to wurstmeister's image: "$$'\n'".
    quoted = {"KAFKA_CREATE_TOPICS": "a:1:1\nb\n", "KAFKA_CREATE_TOPICS_SEPARATOR": "$'\n'"}
    assert load_config(environment=quoted).initial.topics == (InitialTopic("a"), InitialTopic("b"))
    with pytest.raises(ConfigError, match=r'bad value for KAFKA_CREATE_TOPICS: "a:x" must be name:partitions:replicas'):
        load_config(environment={"KAFKA_CREATE_TOPICS": "a:x"})
