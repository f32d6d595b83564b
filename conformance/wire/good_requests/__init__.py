"""For each API a good request over the prepared state, from which the bad ones are made.

A request that uses its state up makes a state of its own each time, with names that nobody used before. Fields
that a version does not have are not sent, thus one request serves all versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.wire.good_requests import cluster, groups, records, security, transactions, unserved
from conformance.wire.good_requests.registry import MAKERS, D
from oncelog.protocol.messages import request_class

if TYPE_CHECKING:
    from conformance.wire.talk import Talk
    from oncelog.protocol.api_keys import ApiKey
    from oncelog.protocol.schema import Message

__all__ = ["MAKERS", "D", "cluster", "good_request", "groups", "records", "security", "transactions", "unserved"]


def good_request(api: ApiKey, talk: Talk, version: int) -> Message:
    """An API without a maker is asked with the defaults of its declaration."""
    maker = MAKERS.get(api)
    return maker(talk, version) if maker is not None else request_class(api)()
