"""CRC32C, loaded with the first checksum.

It loads only the extension of the package `crc32c`, if it finds it: the package itself reads its version from its
metadata and loads `email` for that, which takes 25 ms and some megabytes.
"""

from __future__ import annotations

from collections.abc import Callable

Data = bytes | bytearray | memoryview


def crc32c(data: Data, before: int = 0) -> int:
    """`before` is the checksum of what precedes `data`."""
    return _compute(data, before)


def _load(data: Data, before: int) -> int:
    global _compute
    _compute = _extension_function() or _package_function()
    return _compute(data, before)


def _extension_function() -> Callable[[Data, int], int] | None:
    from importlib.machinery import PathFinder
    from importlib.util import find_spec, module_from_spec

    package = find_spec("crc32c")
    spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    function: Callable[[Data, int], int] | None = getattr(extension, "crc32c", None)
    return function


def _package_function() -> Callable[[Data, int], int]:
    from crc32c import crc32c

    return crc32c


_compute: Callable[[Data, int], int] = _load
