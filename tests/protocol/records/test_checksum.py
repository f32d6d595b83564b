"""CRC32C, by whichever way its package offers it."""

from __future__ import annotations

import subprocess
import sys

from oncelog.protocol.records import checksum

CHECK = (b"123456789", 0xE3069283)
"""The check value of the algorithm's catalogue entry."""


def test_both_ways_give_the_check_value() -> None:
    data, expected = CHECK
    extension_function = checksum._extension_function()
    assert extension_function is not None
    assert extension_function(data) == checksum._package_function()(data) == checksum.crc32c(data) == expected
    assert checksum.crc32c(memoryview(data)) == checksum.crc32c(bytearray(data)) == expected


def test_the_package_around_the_extension_is_not_loaded() -> None:
    code = (
        "import sys; from oncelog.protocol.records.checksum import crc32c; crc32c(b''); print('email' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
