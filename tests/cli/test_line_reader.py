from __future__ import annotations

import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from oncelog.cli.line_reader import iter_lines


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_lines_are_those_of_the_bytes_however_they_come(chunks: list[bytes]) -> None:
    readable, writable = os.pipe()

    def write() -> None:
        for chunk in chunks:
            os.write(writable, chunk)
        os.close(writable)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        lines = [line for line in iter_lines(readable) if line is not None]
    finally:
        writer.join()
        os.close(readable)
    expected = b"".join(chunks).split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert lines == expected


def test_a_pause_is_told_once() -> None:
    readable, writable = os.pipe()
    lines = iter_lines(readable)
    os.write(writable, b"one\ntw")
    assert next(lines) == b"one"
    assert next(lines) is None
    os.write(writable, b"o\n")
    assert next(lines) == b"two"
    os.close(writable)
    assert list(lines) == []
    os.close(readable)
