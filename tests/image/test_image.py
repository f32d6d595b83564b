"""The image's files, without Docker: laid out below a directory and started as other images' scripts start theirs.

What testcontainers' Kafka modules do is repeated here (4.7 and 4.15 for Python, 1.21 and 2.0 for Java, 0.40 for Go):
all give a command that waits for a script, copy that script into the running container, and wait for a line of the log.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from oncelog.client.addresses import parse_addresses

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
TIMEOUT_S = 60

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
ONE_NODE = {
    "KAFKA_BROKER_ID": "1",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": str(2**63 - 1),
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
ZOOKEEPER = ONE_NODE | {
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:0,BROKER://0.0.0.0:0",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
KRAFT = ONE_NODE | {
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:0,BROKER://0.0.0.0:0,CONTROLLER://0.0.0.0:0",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
    "CLUSTER_ID": CLUSTER_ID,
}
ADVERTISE = "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:0,BROKER://localhost:0"
FORMAT = f"""
sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
echo 'kafka-storage format -t "{CLUSTER_ID}" -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure
"""
START_ZOOKEEPER = "zookeeper-server-start zookeeper.properties &\nexport KAFKA_ZOOKEEPER_CONNECT=localhost:2181\n"
CONFIGURE_AND_LAUNCH = """
. /etc/confluent/docker/bash-config
/etc/confluent/docker/configure
/etc/confluent/docker/launch
"""
STARTED = r".*\[KafkaServer id=\d+\] started.*"
SERVER_STARTED = r".*Kafka Server started.*"
RUNNING = r".*Transitioning from RECOVERY to RUNNING.*"

MODULES = {
    "python": ("sh", ZOOKEEPER, f"{START_ZOOKEEPER}{ADVERTISE}{CONFIGURE_AND_LAUNCH}", STARTED),
    "python-kraft": ("sh", KRAFT, f"{FORMAT}{ADVERTISE}{CONFIGURE_AND_LAUNCH}", SERVER_STARTED),
    "java-apache": ("bash", KRAFT, f"{ADVERTISE}\n/etc/kafka/docker/run \n", RUNNING),
    "java-confluent": ("bash", KRAFT, f"{ADVERTISE}\n/etc/confluent/docker/run \n", RUNNING),
    "java-deprecated": (
        "bash",
        ZOOKEEPER,
        f"{ADVERTISE}\necho '' > /etc/confluent/docker/ensure \n{START_ZOOKEEPER}/etc/confluent/docker/run \n",
        STARTED,
    ),
    "go": (
        "bash",
        KRAFT,
        f"source /etc/confluent/docker/bash-config\n{ADVERTISE}{FORMAT}echo '' > /etc/confluent/docker/ensure\n"
        "/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        RUNNING,
    ),
}


class Image:
    """The files of the image below a directory, which stands for the root of a container."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[subprocess.Popen[str]] = []
        (root / "tmp").mkdir(parents=True)
        subprocess.run(["sh", REPOSITORY / "docker" / "install", root], check=True)
        for path in (path for path in root.rglob("*") if path.is_file()):
            path.write_text(self.inside(path.read_text()))

    def inside(self, text: str) -> str:
        """The text with the paths of a container below our root."""
        return re.sub(r"(?<![\w.])/(bitnami|etc|mnt|tmp|var)/", rf"{self.root}/\1/", text)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "ONCELOG_"))}
        path = f"{self.root}/usr/local/bin:{PROGRAMS}:{os.environ['PATH']}"
        return own | self.image_variables() | dict(variables) | {"PATH": path}

    def image_variables(self) -> dict[str, str]:
        dockerfile = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", "")
        found = re.findall(r"^ENV (.*)$", dockerfile, re.MULTILINE)
        return {name: self.inside(value) for line in found for name, value in re.findall(r"(\w+)=(\S+)", line)}

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(variables),
            cwd=self.root / "tmp",
            process_group=0,
        )
        self.started.append(process)
        return process

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment(variables), timeout=TIMEOUT_S, check=False
        )

    @property
    def address(self) -> str:
        return (self.root / "tmp" / "oncelog.address").read_text()

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                # A shell that waits for the broker does not pass a signal on, so it goes to the group.
                os.killpg(process.pid, 15)
            process.wait(TIMEOUT_S)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Image]:
    image = Image(tmp_path / "root")
    yield image
    image.end()


def wait_for(process: subprocess.Popen[str], pattern: str) -> str:
    """Reads until a line matches, as the modules do; all that was printed."""
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if re.match(pattern, line):
            return printed
    raise AssertionError(f"the broker ended: {printed}")


def brokers_and_topics(address: str) -> tuple[list[str], dict[str, int]]:
    """What a client is told: addresses, and topics with their numbers of partitions."""
    found = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=TIMEOUT_S)
    brokers = [f"{broker.host}:{broker.port}" for broker in found.brokers.values()]
    return brokers, {name: len(topic.partitions) for name, topic in found.topics.items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_testcontainers_starts_it(image: Image, module: str) -> None:
    shell, variables, script, pattern = MODULES[module]
    path = image.root / "tmp" / "testcontainers_start.sh"
    wait = f"while [ ! -f {path} ]; do sleep 0.1; done; {shell} {path}"
    # Some modules replace the entrypoint by the shell, others only give a command.
    process = image.start("oncelog-entrypoint", "sh", "-c", wait, **variables)
    whole = path.with_suffix(".new")
    whole.write_text(image.inside(script))
    whole.rename(path)
    printed = wait_for(process, pattern)
    assert "not found" not in printed
    assert "rror" not in printed
    for address in parse_addresses(image.address):
        assert brokers_and_topics(str(address))[0] == [f"localhost:{address.port}"]


def test_it_serves_on_every_interface_unless_told_otherwise(image: Image) -> None:
    """The default port may be taken on the machine that runs the test, so only the settings are looked at."""
    properties = (image.root / "etc" / "oncelog" / "server.properties").read_text()
    assert "listeners=PLAINTEXT://0.0.0.0:9092\n" in properties
    assert not [name for name in image.image_variables() if name.startswith("KAFKA_")], "they would override a file's"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_addresses_that_a_compose_file_names(image: Image) -> None:
    inside, outside = free_port(), free_port()
    advertised = f"PLAINTEXT://localhost:{inside},PLAINTEXT_HOST://127.0.0.1:{outside}"
    process = image.start(
        "oncelog-entrypoint",
        KAFKA_ADVERTISED_LISTENERS=advertised,
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        KAFKA_CREATE_TOPICS="orders:3:1",
    )
    printed = wait_for(process, STARTED)
    assert f"listening on 0.0.0.0:{inside}" in printed
    assert f"listener PLAINTEXT_HOST is bound to 0.0.0.0:{outside}, clients are told 127.0.0.1:{outside}" in printed
    assert brokers_and_topics(f"127.0.0.1:{outside}") == ([f"127.0.0.1:{outside}"], {"orders": 3})
    assert brokers_and_topics(f"localhost:{inside}") == ([f"localhost:{inside}"], {"orders": 3})


def test_a_mounted_file_takes_the_place_of_the_image_s_own(image: Image) -> None:
    mounted = image.root / "mnt" / "shared" / "config" / "server.properties"
    mounted.parent.mkdir(parents=True)
    mounted.write_text(f"node.id=7\nlog.dirs={image.root}/tmp/data\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    printed = wait_for(image.start("oncelog-entrypoint"), STARTED)
    assert "[KafkaServer id=7]" in printed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
@pytest.mark.parametrize(
    ("volume", "directory"), [("var/lib/kafka/data", "var/lib/kafka/data"), ("bitnami/kafka", "bitnami/kafka/data")]
)
def test_a_volume_of_another_image_has_the_data(image: Image, volume: str, directory: str) -> None:
    """A compose file that keeps data in a volume keeps ours."""
    assert (image.root / volume).is_dir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(image.root / volume)], check=False)
    if mounted.returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        printed = wait_for(image.start("oncelog-entrypoint", "--listen", "127.0.0.1:0"), STARTED)
        assert f"data in {image.root / directory}\n" in printed
        given = image.root / "tmp" / "given"
        options = ["--listen", "127.0.0.1:0"]
        printed = wait_for(image.start("oncelog-entrypoint", *options, KAFKA_LOG_DIRS=str(given)), STARTED)
        assert f"data in {given}\n" in printed
    finally:
        image.end()
        subprocess.run(["umount", str(image.root / volume)], check=True)


@pytest.mark.parametrize("verb", [[], ["serve"]])
def test_options_are_those_of_serve(image: Image, verb: list[str]) -> None:
    options = ["--listen", "127.0.0.1:0", "-o", "node.id=8"]
    assert "[KafkaServer id=8]" in wait_for(image.start("oncelog-entrypoint", *verb, *options), STARTED)


def test_other_words_are_commands(image: Image) -> None:
    assert image.run("oncelog-entrypoint", "echo", "hello").stdout == "hello\n"
    assert image.run("oncelog-entrypoint", "version").stdout.startswith("oncelog ")
    done = image.run("oncelog-entrypoint", "nonsense")
    assert done.returncode == 2
    assert "there is no command 'nonsense'" in done.stderr


def test_the_health_check_knows_the_port(image: Image) -> None:
    dockerfile = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", "")
    (check,) = re.findall(r"^HEALTHCHECK .*? CMD (.*)$", dockerfile, re.MULTILINE)
    process = image.start("oncelog-entrypoint", "--listen", "127.0.0.1:0")
    wait_for(process, STARTED)
    assert image.run("sh", "-c", check).returncode == 0
    process.terminate()
    process.wait(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while image.run("sh", "-c", check).returncode != 1:
        assert time.monotonic() < deadline


def test_an_address_file_that_cannot_be_written_does_not_matter(image: Image) -> None:
    nowhere = str(image.root / "nowhere" / "address")
    printed = wait_for(
        image.start("oncelog-entrypoint", "--listen", "127.0.0.1:0", ONCELOG_ADDRESS_FILE=nowhere), STARTED
    )
    assert f"{nowhere} cannot be written: No such file or directory" in printed
