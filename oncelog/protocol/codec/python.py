"""Carries out a plan in Python: generates straight-line code from it, when it is first asked to."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import Buffer, Part
from oncelog.protocol.schema import Message

Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
Encoder = Callable[[Any, Callable[[Part], None]], None]


class PythonExecutor:
    __slots__ = ("_decoder", "_encoder", "_message", "_version")

    def __init__(self, message: type[Message], version: int) -> None:
        self._message = message
        self._version = version
        self._decoder: Decoder | None = None
        self._encoder: Encoder | None = None

    def decode(self, buf: Buffer, position: int, elements_max: int, /) -> Any:
        return self.decode_from(buf, position, elements_max)[0]

    def decode_from(self, buf: Buffer, position: int, elements_max: int, /) -> tuple[Any, int]:
        decoder = self._decoder or self._compile_decoder()
        try:
            return decoder(memoryview(buf), position, elements_max)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ProtocolError(f"{self._message.__name__} v{self._version} is malformed: {error}") from None

    def encode(self, message: Message, parts: list[Part], /) -> None:
        encoder = self._encoder or self._compile_encoder()
        encoder(message, parts.append)

    # The generators are loaded here: where there is the C executor, most brokers never need them.

    def _compile_decoder(self) -> Decoder:
        from oncelog.protocol.codec.decoder_source import DecoderSource

        self._decoder = DecoderSource(self._message, self._version).compile()
        return self._decoder

    def _compile_encoder(self) -> Encoder:
        from oncelog.protocol.codec.encoder_source import EncoderSource

        self._encoder = EncoderSource(self._message, self._version).compile()
        return self._encoder
