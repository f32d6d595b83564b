from __future__ import annotations

import socket

import pytest

from oncelog.broker.config import BrokerConfig, ConfigError, Setting
from oncelog.broker.config.listeners import (
    ListenerAddress,
    Listeners,
    plaintext_listener,
    resolve_listeners,
)

MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,TLS:SSL"


def resolve(**values: str) -> Listeners:
    settings = {"listener.security.protocol.map": MAP} | {k.replace("_", "."): v for k, v in values.items()}
    return resolve_listeners(BrokerConfig(Setting(name, value, "test") for name, value in settings.items()))


def test_the_default_is_this_machine_only() -> None:
    listeners = resolve_listeners(BrokerConfig())
    assert listeners.bound == (ListenerAddress("PLAINTEXT", "127.0.0.1", 9092),)
    assert listeners.advertised == {"PLAINTEXT": ListenerAddress("PLAINTEXT", "127.0.0.1", 9092)}
    assert listeners.inter_broker == "PLAINTEXT"
    assert listeners.notes == ()


def test_several_listeners_with_what_is_advertised() -> None:
    listeners = resolve(
        listeners=" internal://0.0.0.0:9092 , EXTERNAL://[::1]:9093",
        advertised_listeners="INTERNAL://broker-1:9092,EXTERNAL://kafka.example.com:443",
        inter_broker_listener_name="internal",
    )
    assert [str(address) for address in listeners.bound] == ["INTERNAL://0.0.0.0:9092", "EXTERNAL://[::1]:9093"]
    assert listeners.advertised["INTERNAL"] == ("INTERNAL", "broker-1", 9092)
    assert listeners.advertised["EXTERNAL"] == ("EXTERNAL", "kafka.example.com", 443)
    assert listeners.inter_broker == "INTERNAL"
    assert listeners.notes == ()


@pytest.mark.parametrize(
    ("listener", "host"),
    [("PLAINTEXT://0.0.0.0:0", "127.0.0.1"), ("PLAINTEXT://[::]:0", "::1")],
)
def test_every_interface_advertises_this_machine_and_says_so(listener: str, host: str) -> None:
    listeners = resolve(listeners=listener)
    assert listeners.advertised["PLAINTEXT"] == ("PLAINTEXT", host, 0)
    assert len(listeners.notes) == 1
    assert f"clients are told {host}" in listeners.notes[0]


def test_without_a_host_clients_are_told_the_name_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """So other containers find a broker in a container that advertises nothing."""
    monkeypatch.setattr(socket, "gethostname", lambda: "kafka")
    monkeypatch.setattr(socket, "gethostbyname", {"kafka": "172.18.0.2"}.__getitem__)
    monkeypatch.setattr(socket, "getnameinfo", lambda address, _: ({"172.18.0.2": "kafka.net"}[address[0]], "0"))
    listeners = resolve(listeners="PLAINTEXT://:9092")
    assert listeners.advertised["PLAINTEXT"] == ("PLAINTEXT", "kafka.net", 9092)
    assert "clients are told kafka.net" in listeners.notes[0]
    listeners = resolve(listeners="PLAINTEXT://0.0.0.0:9092", advertised_listeners="PLAINTEXT://:19092")
    assert listeners.advertised["PLAINTEXT"] == ("PLAINTEXT", "kafka.net", 19092)
    assert listeners.notes == ()


def test_a_machine_whose_name_is_unknown_is_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise socket.gaierror(socket.EAI_NONAME, f"{name} is not known")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert resolve(listeners="PLAINTEXT://:9092").advertised["PLAINTEXT"].host == "localhost"


def test_a_controller_listener_is_left_closed_with_a_note() -> None:
    listeners = resolve(
        listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
        advertised_listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    )
    assert [address.name for address in listeners.bound] == ["PLAINTEXT"]
    assert list(listeners.advertised) == ["PLAINTEXT"]
    assert listeners.notes == ("listener CONTROLLER://localhost:9093 is not opened: Oncelog needs no controller port",)


def test_one_port_may_serve_both_ip_versions() -> None:
    assert len(resolve(listeners="INTERNAL://127.0.0.1:9092,EXTERNAL://[::1]:9092").bound) == 2


def test_free_ports_do_not_collide() -> None:
    assert len(resolve(listeners="INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0").bound) == 2


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"listeners": "localhost:9092"}, '"localhost:9092" must be NAME://host:port'),
        ({"listeners": "PLAINTEXT://localhost"}, "must be NAME://host:port"),
        ({"advertised_listeners": "PLAINTEXT://_{HOSTNAME_COMMAND}:9092"}, "must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:70000"}, "must be between 0 and 65535"),
        ({"listeners": "PLAINTEXT://a:-1"}, "must be between 0 and 65535"),
        ({"listeners": ""}, "at least one listener"),
        (
            {"listeners": "CONTROLLER://a:1", "controller_listener_names": "CONTROLLER"},
            "at least one listener for clients",
        ),
        ({"listeners": "INTERNAL://a:1,internal://a:2"}, "the name INTERNAL stands twice"),
        ({"listeners": "INTERNAL://a:1,EXTERNAL://b:1"}, "INTERNAL and EXTERNAL share port 1"),
        ({"listeners": "OTHER://a:1"}, "OTHER has no entry in listener.security.protocol.map"),
        ({"listeners": "TLS://a:1"}, "TLS asks for SSL, which this version does not serve"),
        ({"listener_security_protocol_map": "A:B"}, '"A:B" must be NAME:PROTOCOL'),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "a host that clients can connect to"),
        ({"advertised_listeners": "EXTERNAL://a:1"}, "no listener EXTERNAL in listeners"),
        ({"advertised_listeners": "PLAINTEXT://a:1,PLAINTEXT://b:1"}, "the name PLAINTEXT stands twice"),
        ({"inter_broker_listener_name": "EXTERNAL"}, "no listener EXTERNAL in listeners"),
    ],
)
def test_refusals(values: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(**values)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "listener"),
    [
        ("localhost:9092", "PLAINTEXT://localhost:9092"),
        (":0", "PLAINTEXT://:0"),
        ("[::1]:9092", "PLAINTEXT://[::1]:9092"),
        ("external://a:1", "EXTERNAL://a:1"),
    ],
)
def test_what_a_person_types(typed: str, listener: str) -> None:
    assert plaintext_listener(typed, "--listen") == listener
