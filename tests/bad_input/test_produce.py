"""Rows 24-46: produce requests that must not reach a log."""

from __future__ import annotations

import gzip
import itertools
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.protocol.messages.produce import PartitionProduceData, TopicProduceData
from oncelog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    CRC_POSITION,
    HEADER_SIZE,
    MAGIC_POSITION,
)
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.varint import encode_varint
from tests.bad_input.conftest import StartBroker, Target
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    end_offset,
    fetch,
    now_ms,
    patched,
    produce,
    produce_codes,
    record,
    with_body,
)

LAST_OFFSET_DELTA, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, RECORD_COUNT = 23, 43, 51, 53, 57

NAMED_VERSIONS = (3, 7, 8, 9, 12)
"""Of each shape in which a topic has a name: without and with messages, old and flexible."""

_producer_ids = itertools.count(1_000_000)


def codes(
    client: RawClient, target: Target, *batches: Any, version: int = PRODUCE_VERSION, **options: Any
) -> list[int]:
    return produce_codes(client.call(produce(target.name, *batches, **options), version))


def assert_refused(client: RawClient, target: Target, records: Any, code: int) -> None:
    """In every shape of the request, and the answer has no offset."""
    for version in NAMED_VERSIONS:
        response = client.call(produce(target.name, records, acks=1), version)
        (answer,) = response.responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (code, -1), (version, answer)
    by_id = produce(target.name, records)
    by_id.topic_data[0].topic_id = target.id
    assert produce_codes(client.call(by_id, 13)) == [code]


@pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
def test_acks_that_do_not_exist(client: RawClient, target: Target, acks: int) -> None:
    assert codes(client, target, batch(), acks=acks) == [21]
    both = produce(target.name, batch(), acks=acks)
    both.topic_data.append(TopicProduceData(name="nowhere", partition_data=[PartitionProduceData(index=7)]))
    assert produce_codes(client.call(both, PRODUCE_VERSION)) == [21, 21]


@pytest.mark.parametrize("records", [None, b"", batch()[:-1], patched(batch(), ATTRIBUTES_POSITION, ">h", CONTROL_BIT)])
def test_an_error_with_acks_0_closes(broker: LiveBroker, target: Target, records: bytes | None) -> None:
    for request in (produce(target.name, records, acks=0), produce("nowhere", batch(), acks=0)):
        with RawClient(broker.port) as client:
            client.send(request, PRODUCE_VERSION)
            client.assert_closed()
    with RawClient(broker.port) as client:
        client.send(produce(target.name, batch(transactional=True, **idempotent()), acks=0), PRODUCE_VERSION)
        client.assert_closed()


def test_acks_0_counts_when_the_client_hangs_up_behind_it(
    broker: LiveBroker, client: RawClient, target: Target
) -> None:
    with RawClient(broker.port) as hasty:
        hasty.send(fetch(target.name, max_wait_ms=60_000, min_bytes=1), FETCH_VERSION)
        for _ in range(3):
            hasty.send(produce(target.name, batch(), acks=0), PRODUCE_VERSION)
    wait_until(lambda: end_offset(client, target.name) == 3, "all three are there")
    target.written = 3


def test_success_with_acks_0_has_no_answer(client: RawClient, target: Target) -> None:
    client.send(produce(target.name, batch(), acks=0), PRODUCE_VERSION)
    assert codes(client, target, batch()) == [0]
    target.written = 2


@pytest.mark.parametrize(
    "records",
    [
        None,
        b"",
        batch()[:11],
        batch() + batch(),
        batch() + b"x",
        patched(batch(), MAGIC_POSITION, ">b", 0),
        patched(batch(), MAGIC_POSITION, ">b", 1),
    ],
)
def test_records_that_are_not_one_batch_of_magic_2(client: RawClient, target: Target, records: bytes | None) -> None:
    assert_refused(client, target, records, 87)


def short(batch_length: int) -> bytearray:
    data = batch()[: 12 + max(batch_length, 0)]
    struct.pack_into(">i", data, 8, batch_length)
    return data


@pytest.mark.parametrize(
    "records",
    [
        patched(batch(), MAGIC_POSITION, ">b", 3),
        patched(batch(), MAGIC_POSITION, ">b", 127),
        patched(batch(), MAGIC_POSITION, ">b", -1),
        short(13),
        short(0),
        short(-1),
        short(-(2**31)),
        short(48),
    ],
)
def test_an_unknown_magic_or_an_impossible_length(client: RawClient, target: Target, records: bytearray) -> None:
    assert_refused(client, target, records, 2)


@pytest.mark.parametrize("missing", [1, 10])
def test_a_batch_that_is_cut_off(client: RawClient, target: Target, missing: int) -> None:
    assert_refused(client, target, batch()[:-missing], 87)
    assert_refused(client, target, patched(batch(), 8, ">i", 2**31 - 1), 87)


@pytest.mark.parametrize("position", [CRC_POSITION, ATTRIBUTES_POSITION + 2, HEADER_SIZE, -1])
def test_a_wrong_crc(client: RawClient, target: Target, position: int) -> None:
    damaged = batch()
    damaged[position] ^= 1
    assert_refused(client, target, damaged, 2)


@pytest.mark.parametrize("base_offset", [1, -1, 2**63 - 1, -(2**63)])
def test_a_base_offset(client: RawClient, target: Target, base_offset: int) -> None:
    assert_refused(client, target, batch(base_offset=base_offset), 87)


def with_delta(delta: int) -> bytearray:
    """A batch of one record that claims another place in it."""
    body = bytearray((0, 0))
    body += encode_varint(delta)
    body += bytes((0, 0, 0))
    return with_body(batch(), bytes((2 * len(body),)) + body)


@pytest.mark.parametrize(
    "records",
    [
        patched(batch(), RECORD_COUNT, ">i", 0),
        patched(batch(), RECORD_COUNT, ">i", -1),
        patched(batch(), RECORD_COUNT, ">i", 2),
        patched(batch(), RECORD_COUNT, ">i", 2**31 - 1),
        patched(batch(), LAST_OFFSET_DELTA, ">i", 1),
        patched(batch(), LAST_OFFSET_DELTA, ">i", -1),
        patched(batch(), LAST_OFFSET_DELTA, ">i", 2**31 - 1),
        patched(patched(batch(), LAST_OFFSET_DELTA, ">i", 1), RECORD_COUNT, ">i", 2),
        patched(patched(batch(record(), record()), LAST_OFFSET_DELTA, ">i", 0), RECORD_COUNT, ">i", 1),
        patched(patched(batch(), LAST_OFFSET_DELTA, ">i", 2**31 - 2), RECORD_COUNT, ">i", 2**31 - 1),
        with_body(patched(patched(batch(), LAST_OFFSET_DELTA, ">i", -1), RECORD_COUNT, ">i", 0), b""),
        with_delta(1),
        with_delta(-1),
    ],
)
def test_counts_and_offsets_that_disagree(client: RawClient, target: Target, records: bytearray) -> None:
    assert_refused(client, target, records, 87)


def test_a_control_batch_from_a_client(client: RawClient, target: Target) -> None:
    assert_refused(client, target, batch(control=True), 87)
    marker = batch(record(bytes(6), bytes(4)), control=True, **idempotent())
    assert_refused(client, target, marker, 87)


def idempotent(producer_id: int | None = None, epoch: int = 0, sequence: int = 0) -> dict[str, int]:
    producer_id = next(_producer_ids) if producer_id is None else producer_id
    return {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}


def test_a_producer_without_sequence_or_a_transaction_without_producer(client: RawClient, target: Target) -> None:
    assert_refused(client, target, batch(**idempotent(sequence=-1)), 87)
    assert_refused(client, target, batch(**idempotent(epoch=-1)), 87)
    assert codes(client, target, batch(transactional=True), transactional_id="mine") == [87]


@pytest.mark.parametrize("version", [*NAMED_VERSIONS, 13])
def test_a_transactional_batch_without_transactional_id(
    broker: LiveBroker, client: RawClient, target: Target, version: int
) -> None:
    """One such batch refuses the whole request, wherever it stands (CVE-2018-17196)."""
    request = produce(target.name, batch())
    request.topic_data[0].topic_id = target.id
    other = PartitionProduceData(index=1, records=batch(transactional=True, **idempotent()))
    request.topic_data[0].partition_data.append(other)
    assert produce_codes(client.call(request, version)) == [53, 53]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_compression_that_does_not_exist(client: RawClient, target: Target, codec: int) -> None:
    assert_refused(client, target, patched(batch(), ATTRIBUTES_POSITION, ">h", codec), 76)


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_zstd_in_a_version_that_has_none(client: RawClient, target: Target, version: int) -> None:
    assert codes(client, target, batch(compression=Compression.ZSTD), version=version) == [76]


@pytest.mark.parametrize("codec", list(Compression)[1:])
@pytest.mark.parametrize("body", [b"", b"\0", b"garbage" * 100, b"\xff" * 1000])
def test_garbage_in_place_of_compressed_records(
    client: RawClient, target: Target, codec: Compression, body: bytes
) -> None:
    assert codes(client, target, with_body(batch(compression=codec), body)) == [87]


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_compressed_records_that_are_cut_off(client: RawClient, target: Target, codec: Compression) -> None:
    whole = batch(record(bytes(5000)), compression=codec)
    assert codes(client, target, with_body(whole, bytes(whole[HEADER_SIZE:-3]))) == [87]


def gzip_bomb(size_bytes: int) -> bytes:
    """As small as deflate can make that many zeros."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunk = bytes(1 << 20)
    return b"".join(deflate.compress(chunk) for _ in range(size_bytes >> 20)) + deflate.flush()


def zstd_bomb(size_bytes: int) -> bytes:
    """Blocks that each repeat one byte 128 KiB times (RFC 8878, 3.1.1.2)."""
    head = bytes.fromhex("28b52ffd 00 58")
    block = struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", (1 << 17) << 3 | 1 << 1 | 1)[:3] + b"\0"
    return head + block * ((size_bytes >> 17) - 1) + last


def zstd_window(exponent: int) -> bytes:
    """A frame that wants a window of 2^(10 + exponent) bytes before its first block."""
    return bytes.fromhex("28b52ffd 00") + bytes((exponent << 3,)) + bytes.fromhex("010000")


LZ4_FALSE_SIZE = bytes.fromhex("04224d18 6c40") + struct.pack("<Q", 2**62) + b"\x00" + bytes(4)
SNAPPY_CHUNK = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 0x7FFFFFFF) + bytes(100)
SNAPPY_RAW = b"\xff\xff\xff\xff\x07" + bytes(100)


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [
        (Compression.GZIP, lambda: gzip_bomb(300 << 20)),
        (Compression.ZSTD, lambda: zstd_bomb(10 << 30)),
        (Compression.ZSTD, lambda: zstd_window(21)),
        (Compression.SNAPPY, lambda: SNAPPY_CHUNK),
        (Compression.SNAPPY, lambda: SNAPPY_RAW),
        (Compression.LZ4, lambda: LZ4_FALSE_SIZE),
        (Compression.GZIP, lambda: gzip.compress(b"x") * 1000),
    ],
    ids=["gzip", "zstd", "zstd-window", "snappy-chunk", "snappy-raw", "lz4-size", "gzip-members"],
)
def test_a_decompression_bomb(
    broker: LiveBroker, target: Target, codec: Compression, bomb: Callable[[], bytes]
) -> None:
    """Refused soon, with the code that makes no client resend it in halves."""
    records = with_body(batch(compression=codec), bomb())
    with RawClient(broker.port) as client:
        create_topic(client, f"{target.name}-large", max_message_bytes="10000000")
        response = client.call(produce(f"{target.name}-large", records), PRODUCE_VERSION)
    assert produce_codes(response) == [87]


def test_compressed_records_up_to_the_ceiling_are_taken(broker: LiveBroker, target: Target) -> None:
    with RawClient(broker.port) as client:
        assert codes(client, target, batch(record(bytes(20 << 20)), compression=Compression.GZIP)) == [0]
    target.written = 1


def raw_record(*fields: int | bytes) -> bytes:
    """A record of varints and raw bytes, with a length that fits."""
    body = bytearray()
    for field in fields:
        if isinstance(field, int):
            body += encode_varint(field)
        else:
            body += field
    out = bytearray()
    out += encode_varint(len(body))
    return bytes(out + body)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize(
    "body",
    [
        b"\xc8\x01" + bytes(10),  # 100 bytes, of which 10 are there
        b"\x01" + bytes(10),  # a length of -1
        b"\xff\xff\xff\xff\x0f" + bytes(10),
        b"\xff\xff\xff\xff\xff\xff\xff" + bytes(10),
        raw_record(b"\0", 0, 0, -2, -1, 0),  # key
        raw_record(b"\0", 0, 0, 2**31 - 1, -1, 0),
        raw_record(b"\0", 0, 0, -1, -2, 0),  # value
        raw_record(b"\0", 0, 0, -1, 1000, b"x", 0),
        raw_record(b"\0", 0, 0, -1, -1, -1),  # header count
        raw_record(b"\0", 0, 0, -1, -1, 2**31 - 1),
        raw_record(b"\0", 0, 0, -1, -1, 5),
        raw_record(b"\0", 0, 0, -1, -1, 1, -1, -1),  # a null header key
        raw_record(b"\0", 0, 0, -1, -1, 1, -2, -1),
        raw_record(b"\0", 0, 0, -1, -1, 1, 1, b"k", -2),
        raw_record(b"\0", 0, 0, -1, -1, 0, b"left over"),
        raw_record(b"\0", 0, 0, -1, -1, 0) + b"\0",
        b"",
    ],
)
def test_a_malformed_record(client: RawClient, target: Target, codec: Compression, body: bytes) -> None:
    packed = body
    if codec:
        packed = gzip.compress(body)
    assert codes(client, target, with_body(batch(compression=codec), packed)) == [87]


@pytest.mark.parametrize("target", [{"cleanup_policy": "compact"}, {"cleanup_policy": "compact,delete"}], indirect=True)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_null_key_in_a_compacted_topic(client: RawClient, target: Target, codec: Compression) -> None:
    keyless = batch(record(), record(key=None), compression=codec)
    assert codes(client, target, keyless) == [87]
    assert codes(client, target, batch(record(value=None), compression=codec)) == [0]
    target.written = 1


@pytest.mark.parametrize(
    "target",
    [{"message_timestamp_before_max_ms": "60000", "message_timestamp_after_max_ms": "60000"}],
    indirect=True,
)
@pytest.mark.parametrize("shift_ms", [-120_000, 120_000])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_a_timestamp_too_far_from_now(client: RawClient, target: Target, shift_ms: int, codec: Compression) -> None:
    far = record(timestamp=now_ms() + shift_ms)
    assert codes(client, target, batch(far, compression=codec)) == [32]
    assert codes(client, target, batch(record(), far, record(), compression=codec)) == [32]


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63)])
def test_timestamps_at_the_ends_of_their_range(client: RawClient, target: Target, timestamp: int) -> None:
    """The default allows any past and one hour of future; -2^63 is no time at all."""
    (code,) = codes(client, target, batch(record(timestamp=timestamp), base_timestamp=timestamp))
    assert code == 32 or timestamp < 0
    target.written = int(code == 0)


@pytest.mark.parametrize("target", [{"max_message_bytes": "1000", "segment_bytes": "1048576"}], indirect=True)
def test_a_batch_larger_than_max_message_bytes(client: RawClient, target: Target) -> None:
    assert_refused(client, target, batch(record(bytes(1000))), 10)


@pytest.mark.parametrize("target", [{"max_message_bytes": "5000000", "segment_bytes": "1048576"}], indirect=True)
def test_a_batch_larger_than_a_segment(client: RawClient, target: Target) -> None:
    assert codes(client, target, batch(record(bytes(2_000_000)))) == [18]


def test_the_default_of_max_message_bytes(client: RawClient, target: Target) -> None:
    overhead = len(batch(record(bytes(1_000_000), b""))) - 1_000_000
    assert codes(client, target, batch(record(bytes(1_048_588 - overhead), b""))) == [0]
    assert codes(client, target, batch(record(bytes(1_048_588 - overhead + 1), b""))) == [10]
    target.written = 1


def sequences(client: RawClient, target: Target, *batches: dict[str, int], count: int = 1) -> list[tuple[int, int]]:
    """Code and base offset of the answers to idempotent batches, one after the other."""
    answers = []
    for options in batches:
        response = client.call(produce(target.name, batch(*[record()] * count, **options)), PRODUCE_VERSION)
        answer = response.responses[0].partition_responses[0]
        answers.append((answer.error_code, answer.base_offset))
    return answers


def test_a_gap_and_repeats_in_a_producers_sequence(client: RawClient, target: Target) -> None:
    producer = next(_producer_ids)
    six = [idempotent(producer, 0, sequence) for sequence in range(6)]
    assert sequences(client, target, *six) == [(0, offset) for offset in range(6)]
    assert sequences(client, target, *six[1:]) == [(0, offset) for offset in range(1, 6)]
    assert sequences(client, target, idempotent(producer, 0, 7)) == [(45, -1)]
    assert sequences(client, target, idempotent(producer, 0, 2**31 - 1)) == [(45, -1)]
    target.written = 6


def test_a_sequence_that_wraps(client: RawClient, target: Target) -> None:
    producer = next(_producer_ids)
    last = idempotent(producer, 0, 2**31 - 2)
    assert sequences(client, target, last, idempotent(producer, 0, 0), count=2) == [(0, 0), (0, 2)]
    across = next(_producer_ids)
    started = sequences(client, target, idempotent(across, 0, 2**31 - 1), count=2)
    assert started == [(0, 4)]
    assert sequences(client, target, idempotent(across, 0, 1)) == [(0, 6)]
    target.written = 7


def test_an_old_epoch_and_a_new_one_that_does_not_begin(client: RawClient, target: Target) -> None:
    producer = next(_producer_ids)
    assert sequences(client, target, idempotent(producer, 3, 0)) == [(0, 0)]
    assert sequences(client, target, idempotent(producer, 2, 1)) == [(47, -1)]
    assert sequences(client, target, idempotent(producer, 4, 5)) == [(45, -1)]
    assert sequences(client, target, idempotent(producer, 4, 0)) == [(0, 1)]
    target.written = 2


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_not_for_clients(broker: LiveBroker, client: RawClient, topic: str) -> None:
    before = sorted(broker.data_dir.glob(f"{topic}-*"))
    for version in NAMED_VERSIONS:
        assert produce_codes(client.call(produce(topic, batch()), version)) == [17]
    assert sorted(broker.data_dir.glob(f"{topic}-*")) == before


def test_a_partition_twice_in_one_request(client: RawClient, target: Target) -> None:
    assert codes(client, target, batch(), batch()) == [42]
    spread = produce(target.name, batch())
    spread.topic_data += produce(target.name, batch()).topic_data
    spread.topic_data += produce("neighbour", batch()).topic_data
    assert produce_codes(client.call(spread, PRODUCE_VERSION)) == [42, 0]


@pytest.mark.parametrize("topic", ["nowhere", "", "..", "a/b", "x" * 300, "\0", "é", "../../etc/passwd"])
@pytest.mark.parametrize("index", [0, -1, 2**31 - 1, -(2**31)])
def test_a_partition_that_does_not_exist(
    broker: LiveBroker, client: RawClient, target: Target, topic: str, index: int
) -> None:
    before = sorted(path.name for path in broker.data_dir.iterdir())
    assert produce_codes(client.call(produce(topic, batch(), index=index), PRODUCE_VERSION)) == [3]
    if index != 0:
        assert produce_codes(client.call(produce(target.name, batch(), index=index), PRODUCE_VERSION)) == [3]
    assert sorted(path.name for path in broker.data_dir.iterdir()) == before


def test_a_bomb_of_ten_gigabytes_costs_no_more_than_the_ceiling(start_broker: StartBroker) -> None:
    """Were it unpacked to its end, the test would run into its time limit, or out of memory."""
    broker = start_broker()
    with RawClient(broker.port) as client:
        create_topic(client, "large", max_message_bytes="10000000")
        records = with_body(batch(compression=Compression.ZSTD), zstd_bomb(10 << 30))
        assert produce_codes(client.call(produce("large", records), PRODUCE_VERSION)) == [87]
