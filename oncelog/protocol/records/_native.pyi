from oncelog.protocol.primitives import Buffer
from oncelog.protocol.records.columns import Column
from oncelog.protocol.records.record import Record
from oncelog.protocol.records.scan import RecordScanner as RecordScanner

def encode_plain_records(records: list[Record], base_timestamp: int, /) -> bytes | None: ...
def read_plain_batch(
    batch: memoryview, compacted: bool, timestamp_min: int, timestamp_max: int, /
) -> tuple[int, ...] | None: ...
def encode_records(
    rows: Buffer,
    first: int,
    first_delta: int,
    base_timestamp: int,
    size_bytes_max: int,
    timestamps: Buffer,
    keys: Column | None,
    values: Column | None,
    header_lists: Column | None,
    header_keys: Column | None,
    header_values: Column | None,
    /,
) -> tuple[bytes, int, int]: ...
def partition_keys(keys: Column | None, row_count: int, partition_count: int, /) -> bytes: ...
