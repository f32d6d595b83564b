"""How a setting is declared.

A key's default is text, as a file would have it; None means that it is not set. A dynamic key may change
while the broker runs, for one broker or for the whole cluster (KIP-226).
"""

from __future__ import annotations

from typing import Final

from oncelog.broker.config.values import PASSWORD, Check, Value, parse_checked
from oncelog.named_tuple import NamedTuple

READ_ONLY: Final = False
CLUSTER_WIDE: Final = True


class ConfigKey(NamedTuple):
    name: str
    type: int
    default: str | None
    check: Check | None
    dynamic: bool
    doc: str

    @property
    def sensitive(self) -> bool:
        return self.type == PASSWORD

    def parse(self, text: str, source: str = "") -> Value:
        return parse_checked(self.name, self.type, self.check, text, source)


def table(*parts: tuple[ConfigKey, ...]) -> dict[str, ConfigKey]:
    """The parts as one table in the order of the names."""
    return {key.name: key for key in sorted(key for part in parts for key in part)}
