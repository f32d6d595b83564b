"""One module per API, each with the declarations of its request and its response.

Modules are imported when their API is first used, so that a broker starts without loading all of them.
"""

from __future__ import annotations

from importlib import import_module

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.schema import Message


def request_class(api: ApiKey) -> type[Message]:
    return _load(api, "Request")


def response_class(api: ApiKey) -> type[Message]:
    return _load(api, "Response")


def _load(api: ApiKey, suffix: str) -> type[Message]:
    module = import_module(f"{__name__}.{api.stem}")
    declared: type[Message] = getattr(module, api.camel + suffix)
    return declared
