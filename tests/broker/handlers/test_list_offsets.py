"""ListOffsets by timestamp, which has to look into batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import HEADER_SIZE, MAGIC_POSITION
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import (
    LIST_OFFSETS_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    list_offsets,
    offsets_of,
    produce,
    produce_codes,
    record,
)


@pytest.mark.parametrize("damaged", [MAGIC_POSITION, HEADER_SIZE, -1], ids=["header", "record", "checksum"])
def test_a_damaged_batch_concerns_its_partition_alone(tmp_path: Path, damaged: int) -> None:
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        for topic in ("bad", "good"):
            create_topic(client, topic)
            for timestamp in (1000, 2000):
                sent = batch(record(b"hello", timestamp=timestamp))
                assert produce_codes(client.call(produce(topic, sent), PRODUCE_VERSION)) == [0]
        (file,) = (tmp_path / "bad-0").glob("*.log")
        data = bytearray(file.read_bytes())
        data[damaged if damaged < 0 else len(data) // 2 + damaged] ^= 0x41
        file.write_bytes(data)
        request = list_offsets("bad", timestamp=1500)
        request.topics += list_offsets("good", timestamp=1500).topics
        answer = offsets_of(client.call(request, LIST_OFFSETS_VERSION))
        assert answer == [(ErrorCode.KAFKA_STORAGE_ERROR, -1), (ErrorCode.NONE, 1)]
    broker.stop()
