"""`oncelog serve` as a person meets it: what it prints, how it stops, and one clear line for what is wrong."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import requires
from itertools import takewhile
from pathlib import Path

import pytest

from oncelog.client.addresses import Address
from oncelog.client.connection import Connection
from oncelog.testing import Broker


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "oncelog", "serve", *arguments]


def run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=60, env=os.environ | (environment or {})
    )


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done
    *logged, line = done.stderr.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d .* ERROR ", each) for each in logged), done.stderr
    assert line.startswith("oncelog: ")
    for word in words:
        assert word in line
    assert done.stdout == ""


@pytest.fixture(autouse=True)
def _default_signals() -> Iterator[None]:
    """Under nohup, or as a job in the background, what we start would ignore these, too."""
    former = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGINT)}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        command("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if "started" in line:
            break
    yield process, printed
    if process.poll() is None:
        process.kill()
    process.wait()
    process.stdout.close()


def test_it_says_where_it_listens_and_how_to_connect(served: tuple[subprocess.Popen[str], str]) -> None:
    _, printed = served
    found = re.search(r"listening on 127\.0\.0\.1:(\d+)", printed)
    assert found
    assert f"bootstrap.servers=127.0.0.1:{found[1]}" in printed
    # The line that testcontainers waits for.
    assert re.search(r"\[KafkaServer id=1\] started", printed)
    with socket.create_connection(("127.0.0.1", int(found[1])), 10):
        pass


SCRIPT = Path(sysconfig.get_path("scripts")) / "oncelog"


@pytest.mark.parametrize(
    ("program", "is_on_path"),
    [([str(SCRIPT)], False), ([str(SCRIPT)], True), ([sys.executable, "-m", "oncelog"], False)],
    ids=["by its path", "on the PATH", "as a module"],
)
def test_the_command_that_it_suggests_works(program: list[str], is_on_path: bool, tmp_path: Path) -> None:
    """`make run` starts it by its path."""
    path = os.pathsep.join([str(SCRIPT.parent)] * is_on_path + ["/usr/bin", "/bin"])
    process = subprocess.Popen(
        [*program, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PATH": path},
    )
    try:
        assert process.stdout is not None
        lines = list(takewhile(lambda line: "started" not in line, process.stdout))
        found = re.search(r"\(try: (.*)\)", "".join(lines))
        assert found
        assert found[1].startswith("oncelog ") == is_on_path
        done = subprocess.run(
            ["sh", "-c", found[1]], env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_stops_cleanly_when_told_to(
    served: tuple[subprocess.Popen[str], str], tmp_path: Path, number: signal.Signals
) -> None:
    process, _ = served
    process.send_signal(number)
    assert process.wait(30) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_under_nohup_it_outlives_its_terminal(tmp_path: Path) -> None:
    arguments = command("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    under_nohup = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *arguments]
    process = subprocess.Popen(under_nohup, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while "started" not in process.stdout.readline():
            assert process.poll() is None
        found = re.search(r"^SigIgn:\s*([0-9a-f]+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
        assert found
        assert int(found[1], 16) & 1 << (signal.SIGHUP - 1)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_busy_broker_keeps_many_who_connect_at_once_waiting(served: tuple[subprocess.Popen[str], str]) -> None:
    """Kafka's default has room for 50; whoever finds none is tried again after a second."""
    process, printed = served
    found = re.search(r"listening on (127\.0\.0\.1):(\d+)", printed)
    assert found
    process.send_signal(signal.SIGSTOP)
    try:
        waiting = [socket.create_connection((found[1], int(found[2])), timeout=0.5) for _ in range(100)]
    finally:
        process.send_signal(signal.SIGCONT)
    for connection in waiting:
        connection.close()


def test_the_data_directory_is_private(served: tuple[subprocess.Popen[str], str], tmp_path: Path) -> None:
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


# Each takes a hundredth of the start or more, and most come back by an import that looks harmless.
NOT_FOR_THE_START = {
    *(
        "argparse",
        "backports.zstd",
        "cramjam",
        "crc32c",
        "dataclasses",
        "email",
        "encodings.idna",
        "http",
        "importlib.metadata",
        "ipaddress",
        "lz4",
    ),
    *(
        "multiprocessing",
        "pathlib",
        "platform",
        "random",
        "re2",
        "rich",
        "shutil",
        "tempfile",
        "typer",
        "urllib",
        "uuid",
    ),
    *("oncelog.broker.coordinator.group.coordinator", "oncelog.broker.coordinator.txn.coordinator"),
    *("oncelog.broker.handlers.produce", "oncelog.broker.log.cleaner", "oncelog.broker.log.partition_log"),
}


def test_it_starts_without_what_it_needs_later(tmp_path: Path) -> None:
    imports = tmp_path / "imports"
    with imports.open("w") as errors:
        process = subprocess.Popen(
            command("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
        )
    with process:
        assert process.stdout is not None
        while "started" not in process.stdout.readline():
            assert process.poll() is None
        loaded = set(re.findall(r"^import time:.*\| +(\S+)$", imports.read_text(), re.MULTILINE))
        process.terminate()
    assert "oncelog.broker.app" in loaded
    assert not loaded & NOT_FOR_THE_START


WITHOUT_RE2 = """
import sys
from importlib.machinery import PathFinder
find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "re2" else find_spec(name, *rest)
from oncelog.cli.main import main
sys.exit(main(["serve", "--listen", "127.0.0.1:0", "--data", sys.argv[1]]))
"""


def test_it_says_that_the_engine_of_regular_expressions_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_RE2, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "started" not in process.stdout.readline():
            assert process.poll() is None
        process.terminate()
        _, printed = process.communicate(timeout=60)
    (note,) = [line for line in printed.splitlines() if line.startswith("note: ")]
    assert note.startswith("note: the package google-re2 is missing")
    assert note.endswith("pip install google-re2")


def test_a_plain_install_brings_the_engine_of_regular_expressions() -> None:
    needed = [requirement for requirement in requires("oncelog") or () if requirement.startswith("google-re2")]
    assert [requirement for requirement in needed if "extra" not in requirement]


def test_the_first_produce_finds_the_codecs_loaded() -> None:
    """An import in the midst of a request may fail for want of a descriptor, with half of its batches written."""
    program = (
        "import sys, oncelog.broker.handlers.produce; sys.exit(not {'cramjam', 'lz4.frame'} <= sys.modules.keys())"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_another_node_id_than_before(tmp_path: Path) -> None:
    with Broker({"node.id": 7}, data_dir=tmp_path):
        pass
    done = run("--data", str(tmp_path), "--listen", "127.0.0.1:0")
    refused(done, 1, "Stored node id 7 doesn't match node.id 1", "set node.id=7", "--data")


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = run("--data", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    refused(done, 1, f"127.0.0.1:{port}", "in use", "--listen")


def test_a_locked_directory() -> None:
    with Broker() as broker:
        done = run("--data", str(broker.data_dir), "--listen", "127.0.0.1:0")
        refused(done, 1, str(broker.data_dir), "another process")


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(run("--data", str(tmp_path / "file")), 1, "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk(tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=False)
    if mounted.returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        refused(run("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"), 1, "full")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "log.segmnt.bytes=1"), ("log.segmnt.bytes", "did you mean", "log.segment.bytes")),
        (("-o", "num.partitions=many"), ("num.partitions", "many", "whole number")),
        (("-o", "nothing"), ("key=value",)),
        (("--listen", "nonsense"), ("--listen", "nonsense", "HOST:PORT")),
        (("--config", "absent.properties"), ("absent.properties", "No such file")),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(run(*arguments), 2, *words)


def test_the_environment_is_read_as_kafkas_image_reads_it(tmp_path: Path) -> None:
    refused(run(environment={"KAFKA_NUM_PARTITONS": "3"}), 2, "KAFKA_NUM_PARTITONS", "num.partitions")
    refused(run(environment={"ONCELOG_NUM_PARTITIONS": "x"}), 2, "ONCELOG_NUM_PARTITIONS")


def test_two_listeners_tell_their_clients_two_addresses(tmp_path: Path) -> None:
    from oncelog.protocol.messages.metadata import MetadataRequest, MetadataResponse

    process = subprocess.Popen(
        command(
            *("--data", str(tmp_path)),
            *("-o", "listeners=HOST://127.0.0.1:0,INSIDE://127.0.0.1:0"),
            *("-o", "advertised.listeners=HOST://[::1]:9092,INSIDE://broker:29092"),
            *("-o", "listener.security.protocol.map=HOST:PLAINTEXT,INSIDE:PLAINTEXT"),
            *("-o", "inter.broker.listener.name=INSIDE"),
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if "started" in line:
                break
        ports = re.findall(r"(?:listening on|bound to) \S+:(\d+),", printed)
        advertised = []
        for port in ports:
            with Connection(Address("127.0.0.1", int(port))) as connection:
                answer = connection.send(MetadataRequest(topics=[]), MetadataResponse)
                advertised.append((answer.brokers[0].host, answer.brokers[0].port))
        assert advertised == [("::1", 9092), ("broker", 29092)]
        assert "bootstrap.servers=[::1]:9092 " in printed
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()
