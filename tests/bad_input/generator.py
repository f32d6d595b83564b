"""Random requests with a structure that makes sense, and the many ways to spoil their bytes.

Values come from the declarations: extremes, small numbers, the topics that exist, names that cannot exist. So a
good part of them gets past the decoder and deep into a handler.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from oncelog.broker.handlers import APIS
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.messages import request_class
from oncelog.protocol.primitives import Fixed, Sized
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.schema import ArrayType, Field, FieldType, Message, Struct, StructType, default_of
from tests.bad_input.requests import batch, record, with_crc

TOPICS = ["fuzz-0", "fuzz-1", "fuzz_2", "fuzz.2", "fuzz-compacted"]
_NAMES = [*TOPICS, "", ".", "..", "a/b", "\0", "é", "x" * 249, "y" * 250, "z" * 32_767, "1", "-1"]
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_EXTREMES = (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 4, bytes(4), b"\xff\xff\xff\xff\x0f", b"\xff" * 8)
_ARRAY_LENGTHS = (0, 1, 1, 1, 2, 3)

Mutation = Callable[[random.Random, bytearray], None]


class Generator:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.topic_ids: list[bytes] = [bytes(16), b"\xff" * 16]
        self._apis = list(APIS.values())

    def request(self) -> tuple[Message, int]:
        api = self.rng.choice(self._apis)
        version = self.rng.randint(api.version_min, api.version_max)
        request = self.struct(request_class(api.key), version)
        assert isinstance(request, Message)
        if api.key == ApiKey.PRODUCE and self.rng.random() < 0.9:
            request.acks = self.rng.choice((1, -1))  # type: ignore[attr-defined]
        if api.key == ApiKey.FETCH and self.rng.random() < 0.9:
            request.max_wait_ms = self.rng.choice((0, 1))  # type: ignore[attr-defined]
        return request, version

    def struct(self, cls: type[Struct], version: int) -> Struct:
        return cls(**{field.name: self._field(field, version) for field in cls.fields() if version in field.versions})

    def _field(self, field: Field, version: int) -> Any:
        chance = self.rng.random()
        if version in field.nullable and chance < 0.15:
            return None
        if chance > 0.75:
            value = default_of(field)
            if value is not None or version in field.nullable:
                return value
        return self._value(field.type, version)

    def _value(self, kind: FieldType, version: int) -> Any:
        match kind:
            case Fixed():
                return self._fixed(kind)
            case Sized(name="string"):
                return self._string()
            case Sized(name="records"):
                return self._records()
            case Sized():
                return self.rng.randbytes(self.rng.choice((0, 1, 16, 200)))
            case ArrayType(element):
                return [self._value(element, version) for _ in range(self.rng.choice(_ARRAY_LENGTHS))]
            case StructType(cls):
                return self.struct(cls, version)

    def _fixed(self, kind: Fixed) -> Any:
        rng = self.rng
        match kind.name:
            case "bool":
                return rng.random() < 0.5
            case "float64":
                return rng.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
            case "uuid":
                return rng.choice(self.topic_ids) if rng.random() < 0.9 else rng.randbytes(16)
            case "uint16":
                return rng.randrange(1 << 16)
            case "uint32":
                return rng.randrange(1 << 32)
        bits = _BITS[kind.name]
        if rng.random() < 0.7:
            return rng.randint(-2, 4)
        return rng.choice((-(1 << bits - 1), (1 << bits - 1) - 1, rng.randrange(-(1 << bits - 1), 1 << bits - 1)))

    def _string(self) -> str:
        rng = self.rng
        if rng.random() < 0.9:
            return rng.choice(_NAMES[: len(TOPICS)] if rng.random() < 0.6 else _NAMES)
        return "".join(chr(rng.choice((9, 10, 33, 47, 233, 0x4E00, 0x1F600))) for _ in range(rng.randrange(20)))

    def _records(self) -> bytes:
        rng = self.rng
        chance = rng.random()
        if chance < 0.1:
            return rng.randbytes(rng.randrange(200))
        options: dict[str, Any] = {}
        if rng.random() < 0.4:
            options = {
                "producer_id": rng.randint(0, 5),
                "producer_epoch": rng.randint(0, 2),
                "base_sequence": rng.randint(0, 6),
            }
        data = batch(
            *(record(rng.randbytes(rng.randrange(50))) for _ in range(rng.randint(1, 5))),
            compression=rng.choice(list(Compression)),
            transactional=rng.random() < 0.1,
            **options,
        )
        if chance < 0.5:
            mutate(rng, data)
            if len(data) > 61 and rng.random() < 0.8:
                with_crc(data)
        return bytes(data)


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(rng: random.Random, data: bytearray) -> None:
    """A length or a count becomes something extreme."""
    word = rng.choice(_EXTREMES)
    position = rng.randrange(len(data))
    data[position : position + len(word)] = word


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _insert(rng: random.Random, data: bytearray) -> None:
    position = rng.randrange(len(data))
    data[position:position] = rng.randbytes(rng.randint(1, 8))


def _remove(rng: random.Random, data: bytearray) -> None:
    position = rng.randrange(len(data))
    del data[position : position + rng.randint(1, 8)]


def _repeat(rng: random.Random, data: bytearray) -> None:
    position = rng.randrange(len(data))
    data[position:position] = data[position : position + rng.randint(1, 60)] * rng.randint(1, 5)


def _change_version(rng: random.Random, data: bytearray) -> None:
    if len(data) >= 4:
        struct.pack_into(">h", data, rng.choice((0, 2)), rng.randint(-1, 95))


_MUTATIONS: tuple[Mutation, ...] = (_flip, _overwrite, _cut, _insert, _remove, _repeat, _change_version)


def mutate(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if data:
            rng.choice(_MUTATIONS)(rng, data)
