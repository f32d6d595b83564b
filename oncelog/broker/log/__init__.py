"""The partition log on Apache Kafka's own file layout: synchronous, and knows nothing above it."""

from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.log_reader import Location, ReadResult, TimestampOffset
from oncelog.broker.log.log_writer import AppendResult
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import AppendOrigin

__all__ = [
    "AppendOrigin",
    "AppendResult",
    "Disk",
    "Location",
    "LogConfig",
    "LogManager",
    "PartitionLog",
    "ReadResult",
    "StorageError",
    "TimestampOffset",
]
