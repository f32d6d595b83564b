"""How an address is written for people."""

from __future__ import annotations


def host_and_port(host: str, port: int) -> str:
    """`host:port`; the colons of IPv6 stand in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
