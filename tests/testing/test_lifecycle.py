"""The life of an embedded broker: what is left behind, what is refused, and what a dead broker answers."""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from oncelog.broker.handlers import APIS
from oncelog.client.addresses import parse_address
from oncelog.client.connection import Connection
from oncelog.protocol.api_keys import ApiKey
from oncelog.testing import Broker, BrokerFailed
from oncelog.testing import faults as faults_module
from oncelog.testing import process as process_module

pytest_plugins = ["pytester"]

both = pytest.mark.parametrize("subprocess", [False, True], ids=["thread", "process"])

PATIENCE_SECONDS = 30


@pytest.fixture
def temporary_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The directories that brokers without a `data_dir` have made and not removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: sorted(path.name for path in tmp_path.glob("oncelog-*"))


def answers(address: str) -> bool:
    with Connection(parse_address(address)) as connection:
        return bool(connection.versions)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


# -- the temporary directory -------------------------------------------------------------------------------------


@both
def test_stop_removes_the_temporary_directory(subprocess: bool, temporary_directories: Callable[[], list[str]]) -> None:
    broker = Broker(subprocess=subprocess)
    broker.start()
    assert len(temporary_directories()) == 1
    broker.restart()
    assert len(temporary_directories()) == 1
    broker.stop()
    assert temporary_directories() == []


def test_the_data_stays_until_the_with_block_ends(temporary_directories: Callable[[], list[str]]) -> None:
    with Broker() as broker:
        directory = broker.data_dir
        broker.stop()
        assert (directory / "metadata.sqlite").exists()
        broker.start()
        assert broker.data_dir == directory
    assert temporary_directories() == []


@both
def test_a_failed_start_leaves_nothing_behind(subprocess: bool, temporary_directories: Callable[[], list[str]]) -> None:
    with pytest.raises(BrokerFailed), Broker({"num.partitions": "many"}, subprocess=subprocess):
        pass
    assert temporary_directories() == []


@both
def test_a_broker_that_nobody_stopped_goes_with_its_object(
    subprocess: bool, temporary_directories: Callable[[], list[str]]
) -> None:
    broker = Broker(subprocess=subprocess)
    broker.start()
    address = parse_address(broker.bootstrap_servers)
    del broker
    gc.collect()
    assert temporary_directories() == []
    with socket.socket() as taken:
        assert taken.connect_ex(address) != 0


def test_kill_keeps_the_directory_for_the_next_start_and_stop_removes_it(
    temporary_directories: Callable[[], list[str]],
) -> None:
    broker = Broker(subprocess=True)
    broker.start()
    broker.kill()
    assert len(temporary_directories()) == 1
    broker.start()
    broker.kill()
    broker.stop()
    assert temporary_directories() == []


def test_a_directory_of_ones_own_is_never_removed(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path / "mine")
    broker.start()
    broker.stop()
    assert (tmp_path / "mine").exists()


# -- a parent that dies ------------------------------------------------------------------------------------------


PARENT = """
    import os, sys, tempfile, time
    from oncelog.testing import Broker
    tempfile.tempdir = sys.argv[1]
    broker = Broker(subprocess=True{arguments})
    broker.start()
    {then}
    print(broker.pid, broker.data_dir, flush=True)
    time.sleep(600)
"""


def killed_parent(tmp_path: Path, *, arguments: str = "", then: str = "") -> tuple[int, Path]:
    """A process that starts a broker and is killed; returns what it left behind."""
    program = textwrap.dedent(PARENT).format(arguments=arguments, then=then)
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, directory = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    return int(pid), Path(directory)


def test_a_broker_ends_with_its_parent_and_takes_its_directory_along(tmp_path: Path) -> None:
    pid, directory = killed_parent(tmp_path)
    wait_until(lambda: not is_alive(pid), "the broker has ended")
    assert not directory.exists()


def test_a_broker_ends_with_its_parent_but_leaves_a_given_directory(tmp_path: Path) -> None:
    pid, directory = killed_parent(tmp_path, arguments=f", data_dir={str(tmp_path / 'mine')!r}")
    wait_until(lambda: not is_alive(pid), "the broker has ended")
    assert directory == tmp_path / "mine"
    assert (directory / ".kafka_cleanshutdown").exists()


def test_a_forked_child_does_not_keep_the_broker_alive(tmp_path: Path) -> None:
    fork = "child = os.fork()\nif child == 0: time.sleep(600)\nopen(sys.argv[1] + '/child', 'w').write(str(child))"
    pid, _ = killed_parent(tmp_path, then=fork)
    child = int((tmp_path / "child").read_text())
    try:
        wait_until(lambda: not is_alive(pid), "the broker has ended")
    finally:
        os.kill(child, signal.SIGKILL)


@both
def test_a_forked_child_leaves_the_parents_broker_alone(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        refused = []
        child = os.fork()
        if child == 0:
            try:
                with ExitStack() as unwinding:
                    unwinding.push(broker)
                    for use in (broker.stop, broker.restart, broker.faults.clear, lambda: broker.clock.advance(1)):
                        try:
                            use()
                        except RuntimeError as error:
                            refused.append("forked child" in str(error))
            finally:
                os._exit(0 if refused == [True] * 4 else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert broker.data_dir.exists()
        assert answers(broker.bootstrap_servers)
        broker.faults.clear()


# -- calls at the wrong time -------------------------------------------------------------------------------------


@both
def test_what_needs_a_running_broker_says_so(subprocess: bool) -> None:
    broker = Broker(subprocess=subprocess)
    uses: list[Callable[[], object]] = [
        lambda: broker.pid,
        lambda: broker.clock.advance(1),
        lambda: broker.faults.inject("EndTxn", "delay"),
        broker.faults.clear,
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match=r"not running; call start\(\)"):
            use()
    broker.start()
    broker.stop()
    for use in uses:
        with pytest.raises(RuntimeError, match=r"not running; call start\(\)"):
            use()


def test_the_address_is_known_from_the_start_on() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match=r"chooses the port.*start\(\)"):
        _ = broker.bootstrap_servers
    broker.start()
    address = broker.bootstrap_servers
    broker.stop()
    assert broker.bootstrap_servers == address
    assert Broker(port=9192).bootstrap_servers == "127.0.0.1:9192"


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_an_ipv6_address_has_brackets() -> None:
    with Broker(host="::1") as broker:
        assert re.fullmatch(r"\[::1\]:\d+", broker.bootstrap_servers)
        assert answers(broker.bootstrap_servers)


@both
def test_a_second_start_is_refused_and_does_no_harm(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        with pytest.raises(RuntimeError, match="already running"):
            broker.start()
        with pytest.raises(RuntimeError, match="already running"), broker:
            pass
        assert answers(broker.bootstrap_servers)
        assert broker.data_dir.exists()


@both
def test_stopping_twice_is_fine(subprocess: bool) -> None:
    broker = Broker(subprocess=subprocess)
    broker.stop()
    broker.start()
    broker.stop()
    broker.stop()


def test_killing_what_does_not_run_is_refused() -> None:
    broker = Broker(subprocess=True)
    with pytest.raises(RuntimeError, match="not running"):
        broker.kill()
    broker.start()
    broker.kill()
    with pytest.raises(RuntimeError, match="not running"):
        broker.kill()
    broker.stop()


def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        with pytest.raises(BrokerFailed, match="another process"), Broker(data_dir=tmp_path):
            pass
        assert answers(broker.bootstrap_servers)


@both
def test_a_port_that_is_taken_is_named(subprocess: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerFailed) as caught, Broker(port=port, subprocess=subprocess):
            pass
    assert f"127.0.0.1:{port}: the port is in use" in str(caught.value) + capfd.readouterr().err


@pytest.mark.parametrize("name", ["listeners", "log.dirs", "log.dir"])
def test_settings_that_the_broker_makes_itself_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} .*(data_dir|host)"):
        Broker({name: "x"})


# -- a broker that has ended -------------------------------------------------------------------------------------


def test_a_dead_process_is_told_at_once() -> None:
    with Broker(subprocess=True) as broker:
        fault = broker.faults.inject("EndTxn", "delay")
        os.kill(broker.pid, signal.SIGKILL)
        for use in (broker.faults.clear, lambda: fault.hits, lambda: broker.clock.advance(1)):
            with pytest.raises(RuntimeError, match="killed by SIGKILL"):
                use()
        broker.start()
        broker.faults.clear()


@both
def test_a_fault_ends_with_the_broker_that_it_was_injected_into(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        fault = broker.faults.inject("EndTxn", "delay")
        assert fault.hits == 0
        broker.restart()
        with pytest.raises(RuntimeError, match="restarted broker has no faults"):
            _ = fault.hits
        with pytest.raises(RuntimeError, match="restarted broker has no faults"):
            fault.remove()
        assert broker.faults.inject("EndTxn", "delay").hits == 0


def test_a_broker_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "ANSWER_SECONDS_MAX", 0.2)
    with Broker(subprocess=True) as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.2 s"):
            broker.faults.inject("EndTxn", "delay")
        os.kill(broker.pid, signal.SIGCONT)
        monkeypatch.setattr(process_module, "ANSWER_SECONDS_MAX", 30)
        # The late answer is not taken for the next one.
        assert broker.faults.inject("Produce", "delay").hits == 0
        broker.clock.advance(1)


def test_a_crash_that_does_not_come_leaves_the_broker_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "END_SECONDS_MAX", 0.2)
    with Broker(subprocess=True) as broker:
        with pytest.raises(TimeoutError, match=r"still runs after 0\.2 s"):
            broker.wait_for_crash()
        assert answers(broker.bootstrap_servers)
        monkeypatch.undo()


def test_a_failed_command_is_an_error_and_not_silence() -> None:
    with Broker(subprocess=True) as broker:
        with pytest.raises(RuntimeError, match="fault_hits: IndexError"):
            broker._running_broker().command("fault_hits", {"number": 7})
        broker.faults.clear()


# -- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duration", [-5, 1.5, True, "5"])
def test_the_clock_only_goes_forward(duration: object) -> None:
    with Broker() as broker, pytest.raises(ValueError, match=r"duration_ms.*0 or more"):
        broker.clock.advance(duration)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"nth": 0}, "nth must be a whole number, 1 or more"),
        ({"nth": -1}, "nth must"),
        ({"nth": 1.5}, "nth must"),
        ({"times": -1}, "times must be a whole number, 0 or more"),
        ({"delay_ms": -1}, "delay_ms must"),
        ({"client_id": 5}, "client_id must be a string"),
        ({"api": "endtxn"}, "did you mean 'EndTxn'"),
        ({"api": "EndTransaction"}, "no API 'EndTransaction'"),
        ({"action": "error:NONE"}, "NONE is not an error"),
        ({"action": "error:NO_SUCH"}, "no error code 'NO_SUCH'"),
        ({"action": "error:NOT_COORDINATR"}, "did you mean 'NOT_COORDINATOR'"),
        ({"action": "drop_reply"}, "did you mean 'drop-reply'"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(arguments: dict[str, object], match: str) -> None:
    with Broker() as broker, pytest.raises(ValueError, match=match):
        broker.faults.inject(**({"api": "EndTxn", "action": "delay"} | arguments))  # type: ignore[arg-type]


def test_a_fault_in_an_api_that_is_not_served_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    served = {key: api for key, api in APIS.items() if key != ApiKey.END_TXN}
    monkeypatch.setattr(faults_module, "APIS", served)
    with Broker() as broker, pytest.raises(ValueError, match="does not serve EndTxn"):
        broker.faults.inject("EndTxn", "delay")


def test_a_wrong_scope_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\noncelog_broker_scope = test")
    pytester.makepyfile("def test_one(oncelog_broker): pass")
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: oncelog_broker_scope is 'test'; it must be function, class, module, package or session"]
    )
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
