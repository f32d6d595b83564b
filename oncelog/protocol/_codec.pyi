from typing import Any, Literal

from oncelog.protocol.plan import Layout
from oncelog.protocol.primitives import Buffer, Part
from oncelog.protocol.schema import Message

class Plan:
    def __init__(self, layout: Layout, /) -> None: ...
    def decode(self, buf: Buffer, position: int, elements_max: int, /) -> tuple[Any, int] | Literal[False] | None: ...
    def encode(self, message: Message, parts: list[Part], /) -> bool: ...
