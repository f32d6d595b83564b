def scan_records(
    body: bytes | bytearray | memoryview,
    record_count: int,
    base_timestamp: int,
    compacted: bool,
    timestamp_min: int,
    timestamp_max: int,
    /,
) -> tuple[int, int, int]: ...
