"""The user and the password in `sasl.jaas.config`, which Kafka writes in the syntax of Java's login modules:

    org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="…";

No message of this module quotes its input, which holds a password.
"""

from __future__ import annotations

import re

from oncelog.named_tuple import NamedTuple

_TOKEN = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s=;"']+|[=;]""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_MODULES = ("PlainLoginModule", "ScramLoginModule")
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_FORM = 'write it as …PlainLoginModule required username="NAME" password="PASSWORD";'


class Credentials(NamedTuple):
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, hidden)"


def parse_jaas(text: str) -> Credentials:
    """Raises ValueError with one line that names no secret."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";" or ";" in tokens[:-1]:
        raise ValueError(f"sasl.jaas.config is not one entry of a login module: {_FORM}")
    module = tokens[0].rpartition(".")[2]
    if module not in _MODULES:
        raise ValueError(f"sasl.jaas.config names {module}; this client has {' and '.join(_MODULES)}")
    options = _options(tokens[2:-1])
    if options.pop("tokenauth", "false").lower() == "true":
        raise ValueError("sasl.jaas.config has tokenauth=true: this client does not know delegation tokens")
    for name in ("username", "password"):
        if not options.get(name):
            raise ValueError(f"sasl.jaas.config has no {name}: {_FORM}")
    credentials = Credentials(options.pop("username"), options.pop("password"))
    if options:
        raise ValueError(f"sasl.jaas.config has {len(options)} options beside username and password; it must not")
    return credentials


def _tokens(text: str) -> list[str]:
    tokens = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError("sasl.jaas.config has a quote that is not closed")
        tokens.append(found.group())
        position = found.end()
    return tokens


def _options(tokens: list[str]) -> dict[str, str]:
    if len(tokens) % 3 or any(equals != "=" for equals in tokens[1::3]) or "=" in (*tokens[::3], *tokens[2::3]):
        raise ValueError(f"the options in sasl.jaas.config are not NAME=VALUE: {_FORM}")
    return dict(zip(tokens[::3], map(_unquoted, tokens[2::3]), strict=True))


def _unquoted(token: str) -> str:
    if token[0] not in "\"'":
        return token
    return _ESCAPE.sub(lambda escape: _CONTROLS.get(escape[1], escape[1]), token[1:-1])
