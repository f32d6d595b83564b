"""CRC32C. Its package is loaded with the first checksum: on import it reads its own metadata, which takes long."""

from __future__ import annotations

from collections.abc import Callable

Data = bytes | bytearray | memoryview


def crc32c(data: Data) -> int:
    return _compute(data)


def _load(data: Data) -> int:
    global _compute
    from crc32c import crc32c as compute

    _compute = compute
    return compute(data)


_compute: Callable[[Data], int] = _load
