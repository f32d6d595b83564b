"""Random ids and numbers, from the system: the modules `uuid` and `random` take long to load, and people wait."""

from __future__ import annotations

import os


def random_number(bits: int) -> int:
    """Any number of so many bits."""
    return int.from_bytes(os.urandom((bits + 7) // 8), "big") & (1 << bits) - 1


def random_uuid() -> bytes:
    """A UUID of version 4 (RFC 9562)."""
    uuid = bytearray(os.urandom(16))
    uuid[6] = uuid[6] & 0x0F | 0x40
    uuid[8] = uuid[8] & 0x3F | 0x80
    return bytes(uuid)


def random_uuid_text() -> str:
    """One in the usual form of 36 characters."""
    digits = random_uuid().hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
