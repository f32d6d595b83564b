"""Random input for the C modules, for as long as asked, and the Python code beside them that must do the same.

    python -m tests.protocol.native.fuzz SECONDS SEED [DIRECTORY]

loads the modules from `DIRECTORY`, where `test_sanitizers.py` has built them with sanitizers; a sanitizer ends the
process with a report. Prints the number of steps. A step that fails prints its number: a seed repeats a run.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import random
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODULES = ("oncelog.protocol.codec._native", "oncelog.protocol.records._native")
INT64_MAX = 2**63 - 1


def load(directory: Path) -> None:
    """Put the modules of that directory in the place of the installed ones, before anything has imported those."""
    for name in MODULES:
        assert name not in sys.modules
        path = str(directory / f"{name}.so")
        loader = importlib.machinery.ExtensionFileLoader(name, path)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        sys.modules[name] = module


def outcome(function: Callable[[], Any], *refusals: type[Exception]) -> Any:
    """The result, or the kind of the error. NaN, which is not equal to itself, is compared by its text."""
    try:
        result = function()
    except refusals as error:
        return type(error)
    return result if isinstance(result, bytes) or "nan" not in repr(result) else repr(result)


class CodecFuzzer:
    """Decodes damaged messages and encodes spoilt values, in both executors."""

    def __init__(self, seed: int) -> None:
        from oncelog.protocol.codec import _native
        from oncelog.protocol.codec.plan import make_plan
        from oncelog.protocol.codec.python import PythonExecutor
        from oncelog.protocol.errors import TooManyElementsError
        from tests.bad_input.generator import Generator
        from tests.protocol.declarations import MESSAGE_VERSIONS

        self._generator = Generator(seed)
        self._rng = self._generator.rng
        self._pairs = []
        for message, version in MESSAGE_VERSIONS:
            python = PythonExecutor(message, version)
            native = _native.NativeExecutor(make_plan(message, version), python, TooManyElementsError)
            self._pairs.append((message, version, native, python))

    def step(self) -> None:
        from tests.bad_input.generator import mutate

        message, version, native, python = self._rng.choice(self._pairs)
        value = self._generator.struct(message, version)
        encoded = self._encode(python, value)
        assert self._encode(native, value) == encoded, f"{message.__name__} v{version}"
        if self._rng.random() < 0.3:
            self._spoil(value)
            assert self._encode(native, value) == self._encode(python, value), f"{message.__name__} v{version}: {value}"
        data = bytearray(encoded)
        if self._rng.random() < 0.8:
            mutate(self._rng, data)
        self._decode(native, python, bytes(data))

    def _decode(self, native: Any, python: Any, data: bytes) -> None:
        from oncelog.protocol.errors import ProtocolError

        position = 0 if self._rng.random() < 0.9 else self._rng.randint(0, len(data) + 1)
        elements_max = self._rng.choice((1000, 1000, 1000, 1000, 2, 0))

        def decode(executor: Any) -> Any:
            return outcome(lambda: executor.decode_from(data, position, elements_max), ProtocolError)

        found, expected = decode(native), decode(python)
        # Both refuse a message with two faults, but not always for the same one.
        refused = isinstance(found, type) and isinstance(expected, type)
        assert found == expected or refused, f"{data.hex()} from {position}: {found}, not {expected}"

    def _encode(self, executor: Any, value: Any) -> Any:
        parts: list[Any] = []

        def encode() -> bytes:
            executor.encode(value, parts)
            return b"".join(parts)

        return outcome(encode, Exception)

    def _spoil(self, value: Any) -> None:
        """Set a field somewhere in the message to what it cannot be, or take it away."""
        names = list(value._specs)
        while names:
            name = self._rng.choice(names)
            inner = getattr(value, name)
            if isinstance(inner, list) and inner and hasattr(inner[0], "_specs"):
                value, names = self._rng.choice(inner), list(inner[0]._specs)
            elif self._rng.random() < 0.1:
                delattr(value, name)
                return
            else:
                setattr(value, name, self._rng.choice(_odd_values(value)))
                return


def _odd_values(message: Any) -> tuple[Any, ...]:
    numbers = (None, True, -1, 2**15, 2**31, 2**63, -(2**63), 2**70, 1.5, float("nan"))
    texts = ("", "text", "\ud800", "x" * 40_000, b"", bytes(16), bytearray(5000), memoryview(b"view"))
    return (*numbers, *texts, (), [], [None], [message], [1, "a"], message, object())


class RecordFuzzer:
    """Judges damaged records and encodes odd ones, in C and in Python."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def step(self) -> None:
        self._rng.choice((self._scan, self._scan, self._scan, self._encode_records, self._encode_columns))()

    def _records(self) -> list[Any]:
        from oncelog.protocol.records.record import Record

        def field() -> bytes | None:
            size = self._rng.choice((0, 1, 5, 63, 64, 200, 9000))
            return None if self._rng.random() < 0.2 else self._rng.randbytes(size)

        def headers() -> list[tuple[str, bytes | None]]:
            return [("h" * self._rng.randrange(3), field()) for _ in range(self._rng.choice((0, 0, 0, 1, 3)))]

        return [Record(0, self._timestamp(), field(), field(), headers()) for _ in range(self._rng.randint(1, 6))]

    def _timestamp(self) -> int:
        return self._rng.choice((0, 1, 1_700_000_000_000, self._rng.getrandbits(40), INT64_MAX))

    def _scan(self) -> None:
        from oncelog.protocol.records import _native, scan, validation
        from oncelog.protocol.records.batch import HEADER_SIZE, build_batch
        from tests.bad_input.generator import mutate
        from tests.bad_input.requests import with_crc

        records = self._records()
        batch = build_batch(records)
        if self._rng.random() < 0.7:
            mutate(self._rng, batch)
        if len(batch) > HEADER_SIZE and self._rng.random() < 0.8:
            with_crc(batch)
        rules = (self._rng.random() < 0.5, self._rng.choice((-(2**63), 0, 1)), self._rng.choice((INT64_MAX, 10**12)))
        base_timestamp = self._rng.choice((records[0].timestamp, 0, -(2**63), INT64_MAX))
        count = self._rng.choice((len(records), len(records), len(records) + 1, 0, -1, 2**31 - 1))
        windows = self._cut(bytes(batch[HEADER_SIZE:]))

        def judge(scanner: Any) -> Any:
            scanning = scanner(count, base_timestamp, *rules)
            for window in windows:
                scanning.feed(window)
            return scanning.finish()

        assert judge(_native.RecordScanner) == judge(scan.RecordScanner), f"{windows} {count} {base_timestamp} {rules}"
        header = _native.read_plain_batch(memoryview(batch), *rules)
        if header is not None:
            validation.check_produce_batch(batch, compacted=rules[0])

    def _cut(self, body: bytes) -> list[bytes]:
        places = sorted(self._rng.randint(0, len(body)) for _ in range(self._rng.choice((0, 0, 1, 2, 5))))
        return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]

    def _encode_records(self) -> None:
        from oncelog.protocol.records import _native
        from oncelog.protocol.records.batch import _encode_records

        records = self._records()
        base_timestamp = self._timestamp()
        found = _native.encode_plain_records(records, base_timestamp)
        assert found is None or found == _encode_records(enumerate(records), base_timestamp), f"{records}"
        spoilt = [self._rng.choice((*records, None, (), tuple(range(6)), records[0]._replace(timestamp=2**64)))]
        _native.encode_plain_records(records + spoilt, base_timestamp)

    def _encode_columns(self) -> None:
        from oncelog.protocol.records import _native, columns

        count = self._rng.randint(0, 5)
        rows = self._int32s([*range(count), self._rng.randint(-1, 6)])
        times = struct.pack("=5q", *(self._rng.choice((0, 7, INT64_MAX, -(2**63))) for _ in range(5)))
        arguments = (
            rows,
            self._rng.choice((0, 0, 1, 9, -1)),
            self._rng.choice((0, 5, 2**31 - 1, 2**31, -1)),
            self._rng.choice((0, 7, INT64_MAX, -(2**63))),
            self._rng.choice((0, 100, 2**40)),
            times,
            *(self._column(count) for _ in range(5)),
        )
        found, expected = (
            outcome(lambda encode=encode: encode(*arguments), IndexError, OverflowError)  # type: ignore[misc]
            for encode in (_native.encode_records, columns.encode_records)
        )
        assert found == expected, f"{arguments}"
        keys = self._column(count)
        chosen = outcome(lambda: _native.partition_keys(keys, count, 3), IndexError)
        expected = outcome(lambda: self._int32s([_partition_of(keys, row) for row in range(count)]), IndexError)
        assert chosen == expected, f"{keys}"

    def _int32s(self, numbers: list[int]) -> bytes:
        return struct.pack(f"={len(numbers)}i", *numbers)

    def _column(self, count: int) -> Any:
        from oncelog.protocol.records.columns import Column

        if self._rng.random() < 0.2:
            return None
        ends = [0]
        for _ in range(count + self._rng.choice((-1, 0, 0, 3))):
            ends.append(ends[-1] + self._rng.choice((0, 1, 5)))
        if self._rng.random() < 0.2:
            ends[self._rng.randrange(len(ends))] = self._rng.choice((-1, 3, 2**31 - 1, -(2**31)))
        data = bytes(range(max(0, min(ends[-1], 100))))
        validity = self._rng.choice((None, b"\xff\xff", b"\x55\x55", b""))
        start = self._rng.choice((0, 0, 1, 9))
        return Column(self._int32s(ends), self._rng.choice((data, data, data, None)), validity, start)


def _partition_of(keys: Any, row: int) -> int:
    from oncelog.client.partitioner import partition_for_key
    from oncelog.protocol.records.columns import read_field

    key = None if keys is None else read_field(keys, row)
    return -1 if key is None else partition_for_key(key, 3)


def run(seconds: float, seed: int) -> int:
    fuzzers = (CodecFuzzer(seed), RecordFuzzer(seed))
    ends_at = time.monotonic() + seconds
    steps = 0
    while not steps or time.monotonic() < ends_at:
        try:
            for fuzzer in fuzzers:
                fuzzer.step()
        except AssertionError as error:
            raise AssertionError(f"step {steps}") from error
        steps += 1
    return steps


def main(seconds: str, seed: str, directory: str | None = None) -> None:
    if directory is not None:
        load(Path(directory))
    print(run(float(seconds), int(seed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
