"""Who a request comes from."""

from __future__ import annotations

from typing import Final

from oncelog.named_tuple import NamedTuple


class Principal(NamedTuple):
    """Written `User:alice` in ACLs, quotas and logs."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Kafka's name for a client that has not authenticated."""
