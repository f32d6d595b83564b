"""Which good request an API has, and a short way to write one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.wire.talk import Talk
    from oncelog.protocol.api_keys import ApiKey

Maker: TypeAlias = "Callable[[Talk, int], Any]"

MAKERS: dict[ApiKey, Maker] = {}


def good(api: ApiKey) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        MAKERS[api] = maker
        return maker

    return register


class _Declarations:
    """`D.fetch.FetchTopic`: the declarations of an API, without forty import statements."""

    def __getattr__(self, stem: str) -> Any:
        return import_module(f"oncelog.protocol.messages.{stem}")


D = _Declarations()
