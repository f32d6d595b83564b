"""Checks batches of producers, and recompresses them where their topic wants another codec (`compression.type`).

The event loop does it for batches that take it a millisecond or so. That is decided by sizes: plain bytes are scanned
at a gigabyte per second, but compressed ones may take 100 µs per kilobyte, and may expand a thousandfold; so work on
them ends at a limit, and the batch is left to a thread (`cpu_workers.py`), which begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# The codecs not in the midst of a request, where a failed import would hide what became of its other batches.
from oncelog.protocol.records import codecs as codecs
from oncelog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    BatchHeader,
    TimestampType,
    read_header,
    recompress_batch,
)
from oncelog.protocol.records.compression import Allow, check_size
from oncelog.protocol.records.validation import check_produce_records
from oncelog.protocol.records.verdicts import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from oncelog.broker.base.cpu_workers import Checkpoint
    from oncelog.broker.log.log_config import LogConfig

Checked = tuple[memoryview, BatchHeader]
"""A batch as it is to be stored, and its header."""

PLAIN_BYTES_MAX = 2 * 1024 * 1024
"""Of a batch that is not compressed. Twice Kafka's default for max.message.bytes."""
COMPRESSED_BYTES_MAX = 16 * 1024
DECOMPRESSED_BYTES_MAX = 64 * 1024
RECOMPRESSED_BYTES_MAX = 16 * 1024
"""Of plain bytes that are to be compressed, for which zstd takes up to 6 ms at its highest level."""


_CREATE_TIME = TimestampType.CREATE_TIME


class _TooLargeError(Exception):
    """The event loop would take too long."""


def check_on_loop(records: memoryview | None, config: LogConfig, allow_zstd: bool, now_ms: int) -> Checked | None:
    """The checked batch, or None if it is to be left to a thread. KafkaError if it is refused."""
    allow = _allow_decompression
    if records is not None and (len(records) > COMPRESSED_BYTES_MAX or config.compression is not None):
        codec = records[ATTRIBUTES_POSITION + 1] & CODEC_MASK if len(records) > HEADER_SIZE else 0
        size_bytes_max = COMPRESSED_BYTES_MAX
        if config.compression is not None and config.compression != codec:
            size_bytes_max, allow = RECOMPRESSED_BYTES_MAX, _allow_recompression
        elif not codec:
            size_bytes_max, allow = PLAIN_BYTES_MAX, check_size
        if len(records) > size_bytes_max:
            return None
    try:
        return _check(records, config, allow_zstd, now_ms, allow)
    except _TooLargeError:
        return None


def check_in_thread(
    records: memoryview | None, config: LogConfig, allow_zstd: bool, now_ms: int, checkpoint: Checkpoint
) -> Checked:
    """The checked batch, or KafkaError."""

    def allow(size_bytes: int) -> None:
        check_size(size_bytes)
        checkpoint()

    return _check(records, config, allow_zstd, now_ms, allow)


def _check(records: memoryview | None, config: LogConfig, allow_zstd: bool, now_ms: int, allow: Allow) -> Checked:
    by_producer = config.message_timestamp_type == _CREATE_TIME
    header = check_produce_records(
        records,
        compacted=config.cleanup_compact,
        max_message_bytes=config.max_message_bytes,
        allow_zstd=allow_zstd,
        timestamp_ms_min=now_ms - config.message_timestamp_before_max_ms if by_producer else INT64_MIN,
        timestamp_ms_max=now_ms + config.message_timestamp_after_max_ms if by_producer else INT64_MAX,
        allow=allow,
    )
    assert records is not None
    if config.compression is None or config.compression is header.compression:
        return records, header
    recompressed = recompress_batch(
        records,
        header,
        config.compression,
        config.compression_level,
        size_bytes_max=config.max_message_bytes,
        allow=allow,
    )
    return memoryview(recompressed), read_header(recompressed)


def _allow_decompression(size_bytes: int) -> None:
    if size_bytes >= DECOMPRESSED_BYTES_MAX:
        raise _TooLargeError


def _allow_recompression(size_bytes: int) -> None:
    if size_bytes > RECOMPRESSED_BYTES_MAX:
        raise _TooLargeError
