"""`compression.type` of a topic: batches are stored in its codec, whatever the producer chose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.protocol.records.batch import BatchHeader, compute_crc, read_header
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record, iter_records
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    fetch,
    now_ms,
    produce,
    produce_codes,
)

TARGETS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    broker = LiveBroker(tmp_path_factory.mktemp("data"), {})
    with RawClient(broker.port) as client:
        yield client
    broker.stop()


def records() -> list[Record]:
    now = now_ms()
    return [Record(i, now - 5 * i, b"k%d" % i, b"value" * 50, [("h", b"x"), ("n", None)]) for i in range(10)]


def stored(client: RawClient, topic: str, offset: int = 0) -> tuple[BatchHeader, list[Record], bytes]:
    (data,) = client.call(fetch(topic, offset), FETCH_VERSION).responses[0].partitions
    header = read_header(data.records)
    raw = bytes(data.records[: header.size_bytes])
    assert compute_crc(memoryview(raw)) == header.crc
    return header, list(iter_records(memoryview(raw))), raw


@pytest.mark.parametrize("target", TARGETS)
def test_every_codec_becomes_that_of_the_topic(client: RawClient, target: str) -> None:
    topic = f"all-to-{target}"
    create_topic(client, topic, compression_type=target)
    for number, source in enumerate(Compression):
        sent = records()
        sequence = 10 * number
        data = batch(*sent, compression=source, producer_id=77, producer_epoch=3, base_sequence=sequence)
        answers = [client.call(produce(topic, data), PRODUCE_VERSION) for _ in range(2)]
        assert [produce_codes(answer) for answer in answers] == [[0], [0]]
        # The second was a retry, which is known by its sequence in whatever codec the first was stored.
        assert {answer.responses[0].partition_responses[0].base_offset for answer in answers} == {sequence}
        before = read_header(data)
        header, found, raw = stored(client, topic, sequence)
        assert header.compression is TARGETS[target]
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, sequence)
        assert (header.base_timestamp, header.max_timestamp) == (before.base_timestamp, before.max_timestamp)
        assert (header.record_count, header.last_offset_delta) == (10, 9)
        assert [record._replace(offset=record.offset - sequence) for record in found] == sent
        if source is TARGETS[target]:
            assert raw[21:] == data[21:], "nothing is done where the codec is right"


def test_what_the_producer_chose_is_the_default(client: RawClient) -> None:
    create_topic(client, "as-it-came")
    data = batch(*records(), compression=Compression.LZ4)
    assert produce_codes(client.call(produce("as-it-came", data), PRODUCE_VERSION)) == [0]
    assert stored(client, "as-it-came")[2][17:] == data[17:]


def test_log_append_time_and_the_level(client: RawClient) -> None:
    sizes = []
    for level in ("1", "9"):
        topic = f"level-{level}"
        settings = {"compression_type": "gzip", "compression_gzip_level": level}
        create_topic(client, topic, message_timestamp_type="LogAppendTime", **settings)
        values = [Record(0, now_ms(), None, b"%d %d" % (i, i * i)) for i in range(2000)]
        assert produce_codes(client.call(produce(topic, batch(*values)), PRODUCE_VERSION)) == [0]
        header, _, raw = stored(client, topic)
        assert header.log_append_time
        assert header.compression is Compression.GZIP
        sizes.append(len(raw))
    assert sizes[1] < sizes[0]


def test_the_stored_size_is_held_against_the_limit(client: RawClient) -> None:
    create_topic(client, "small", compression_type="uncompressed", max_message_bytes="1000")
    data = batch(*records(), compression=Compression.ZSTD)
    assert len(data) < 1000
    assert produce_codes(client.call(produce("small", data), PRODUCE_VERSION)) == [10]
