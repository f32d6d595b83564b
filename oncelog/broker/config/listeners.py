"""Addresses: where the broker listens and what it tells clients to connect to.

A listener is `NAME://host:port`; the name stands for a security protocol by `listener.security.protocol.map`.
IPv6 addresses are in brackets. Port 0 takes a free port, which is then also the advertised one.

Without a host, a broker listens on every interface and tells clients the name of its machine, as Kafka does. Other
containers know a container by that name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from oncelog.broker.config.values import ConfigError
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncelog.broker.config.broker_config import BrokerConfig

SERVED_PROTOCOLS: Final = frozenset({"PLAINTEXT"})
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([0-9A-Fa-f:.%\w]*)\]|([\w.%-]*)):(-?[0-9]+)")
_PORT_MAX = 65535
_WILDCARDS = {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Every interface, and the address that a client on the same machine reaches it by."""


class ListenerAddress(NamedTuple):
    """One `NAME://host:port`; an empty host is every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{host_and_port(self.host, self.port)}"


class Listeners(NamedTuple):
    bound: tuple[ListenerAddress, ...]
    """Where to listen."""
    advertised: dict[str, ListenerAddress]
    """What clients of each listener are told; port 0 means the port that was bound."""
    inter_broker: str
    """The name of the listener for other brokers."""
    notes: tuple[str, ...]
    """Lines for the person who starts the broker."""


def resolve_listeners(config: BrokerConfig) -> Listeners:
    """All listeners of a broker, checked against each other; ConfigError is one line."""
    notes: list[str] = []
    protocols = _protocols(config)
    ignored = {name.upper() for name in config.list("controller.listener.names")}
    bound = _without(parse_listeners("listeners", config.list("listeners")), ignored, notes)
    if not bound:
        raise ConfigError("bad value for listeners: at least one listener for clients is needed")
    _check_distinct("listeners", bound)
    for address in bound:
        _check_protocol(address.name, protocols)
    advertised = _advertised(config, bound, ignored, notes)
    return Listeners(bound, advertised, _inter_broker(config, bound), tuple(notes))


def parse_listeners(key: str, texts: Iterable[str]) -> tuple[ListenerAddress, ...]:
    """The addresses of a list; ConfigError names the one that cannot be read."""
    return tuple(_parse(key, text.strip()) for text in texts if text.strip())


def plaintext_listener(address: str, flag: str) -> str:
    """`HOST:PORT`, `:PORT` or `NAME://HOST:PORT`, as a person types it behind a flag, in the form of `listeners`."""
    text = address if "://" in address else f"PLAINTEXT://{address}"
    if _ENDPOINT.fullmatch(text) is None:
        raise ConfigError(f'bad value for {flag}: "{address}" must be HOST:PORT')
    return str(_parse(flag, text))


def _parse(key: str, text: str) -> ListenerAddress:
    found = _ENDPOINT.fullmatch(text)
    if found is None:
        raise ConfigError(f'bad value for {key}: "{text}" must be NAME://host:port')
    name, host6, host, port = found.groups()
    if not 0 <= int(port) <= _PORT_MAX:
        raise ConfigError(f'bad value for {key}: the port of "{text}" must be between 0 and {_PORT_MAX}')
    return ListenerAddress(name.upper(), host if host6 is None else host6, int(port))


def _protocols(config: BrokerConfig) -> dict[str, str]:
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in config.text(key).split(","))):
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        if protocol not in _PROTOCOLS:
            raise ConfigError(f'bad value for {key}: "{pair}" must be NAME:PROTOCOL with {", ".join(_PROTOCOLS)}')
        protocols[name] = protocol
    return protocols


def _check_protocol(name: str, protocols: dict[str, str]) -> None:
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(f"listener {name} has no entry in listener.security.protocol.map")
    if protocol not in SERVED_PROTOCOLS:
        raise ConfigError(f"listener {name} asks for {protocol}, which this version does not serve; use PLAINTEXT")


def _without(
    addresses: tuple[ListenerAddress, ...], ignored: set[str], notes: list[str]
) -> tuple[ListenerAddress, ...]:
    for address in addresses:
        if address.name in ignored:
            notes.append(f"listener {address} is not opened: Oncelog needs no controller port")
    return tuple(address for address in addresses if address.name not in ignored)


def _check_distinct(key: str, addresses: tuple[ListenerAddress, ...]) -> None:
    names: set[str] = set()
    ports: dict[int, ListenerAddress] = {}
    for address in addresses:
        if address.name in names:
            raise ConfigError(f"bad value for {key}: the name {address.name} stands twice")
        names.add(address.name)
        other = ports.setdefault(address.port, address)
        # One port may serve IPv4 and IPv6 under two names (KIP-797).
        if address.port and other is not address and not _is_dual_stack(address, other):
            raise ConfigError(f"bad value for {key}: {other.name} and {address.name} share port {address.port}")


def _is_dual_stack(one: ListenerAddress, other: ListenerAddress) -> bool:
    return bool(one.host and other.host) and (":" in one.host) != (":" in other.host)


def _advertised(
    config: BrokerConfig, bound: tuple[ListenerAddress, ...], ignored: set[str], notes: list[str]
) -> dict[str, ListenerAddress]:
    key = "advertised.listeners"
    given = parse_listeners(key, config.list(key) if config.value(key) is not None else [])
    chosen: dict[str, ListenerAddress] = {}
    for address in given:
        if address.name in ignored:
            continue
        if address.host and address.host in _WILDCARDS:
            raise ConfigError(f'bad value for {key}: "{address}" must have a host that clients can connect to')
        if address.name in chosen:
            raise ConfigError(f"bad value for {key}: the name {address.name} stands twice")
        if all(address.name != each.name for each in bound):
            raise ConfigError(f"bad value for {key}: there is no listener {address.name} in listeners")
        chosen[address.name] = address if address.host else address._replace(host=_machine_name())
    for address in bound:
        if address.name not in chosen:
            chosen[address.name] = _reachable(address, notes)
    return chosen


def local_host(host: str) -> str:
    """By which host a client on this machine reaches a listener."""
    return _WILDCARDS.get(host, host)


def _reachable(address: ListenerAddress, notes: list[str]) -> ListenerAddress:
    if address.host not in _WILDCARDS:
        return address
    host = _WILDCARDS[address.host] if address.host else _machine_name()
    notes.append(
        f"listener {address.name} is open on every interface and clients are told {host}; "
        "set advertised.listeners for clients on other machines"
    )
    return address._replace(host=host)


def _machine_name() -> str:
    """The name that the machine's own address has, as Java's getCanonicalHostName finds it."""
    import socket

    try:
        own_address = socket.gethostbyname(socket.gethostname())
        return socket.getnameinfo((own_address, 0), 0)[0]
    except OSError:
        return "localhost"


def _inter_broker(config: BrokerConfig, bound: tuple[ListenerAddress, ...]) -> str:
    name = config.value("inter.broker.listener.name")
    if not isinstance(name, str) or not name:
        return bound[0].name
    if all(name.upper() != address.name for address in bound):
        raise ConfigError(f"bad value for inter.broker.listener.name: there is no listener {name} in listeners")
    return name.upper()
