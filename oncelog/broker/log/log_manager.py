"""A data directory: the logs of all partitions of a broker, and the files at its root.

    .lock                              held by the process that uses the directory
    meta.properties                    whose directory it is
    .kafka_cleanshutdown               written last by a clean stop, removed first by a start
    recovery-point-offset-checkpoint   per partition: below this offset everything is on disk
    log-start-offset-checkpoint        per partition: where the log starts, if records were deleted
    replication-offset-checkpoint      per partition: the high watermark
    cleaner-offset-checkpoint          per partition: up to where it is compacted
    topic-N/                           a partition; topic-N.<token>-delete is one on its way out
    topic-N.<token>-stray/             a partition of no topic; nobody touches it again

A directory counts as a partition if a checkpoint lists it or if it holds `partition.metadata` or a segment. Anything
else of such a name, a file or somebody's folder, is ignored; it is never opened, renamed or removed.

After a clean stop logs are opened when they are first asked for. Otherwise `recover` must be called before
anything else. A log that cannot be trusted stays where it is, and asking for it raises StorageError.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from oncelog.broker.log import checkpoints
from oncelog.broker.log.checkpoint_ticket import CheckpointOrder, CheckpointTicket
from oncelog.broker.log.checkpoints import TopicPartition
from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.file_names import DELETE_DIRECTORY, LOG, STRAY_DIRECTORY, offset_of_file
from oncelog.broker.log.open_files import DEFAULT_MAX, OpenFiles
from oncelog.protocol.primitives import uuid_text

if TYPE_CHECKING:
    from oncelog.broker.log.log_config import LogConfig
    from oncelog.broker.log.log_writer import LogWriter
    from oncelog.broker.log.partition_log import PartitionLog

    MapLogs = Callable[[Callable[[PartitionLog], bool], Iterable[PartitionLog]], Iterable[bool]]

logger = logging.getLogger(__name__)

LOCK = ".lock"
_PARTITION = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)")
_DELETED = re.compile(rf"[a-zA-Z0-9._-]+-[0-9]+\.[a-zA-Z0-9]+{DELETE_DIRECTORY}")
_NAME_MAX = 255


class LogManager:
    """Owner of a data directory. Made by `open`; everything runs on one thread."""

    def __init__(self, root: str, disk: Disk, config_for: Callable[[str], LogConfig], files: OpenFiles) -> None:
        self.root = root
        self.disk = disk
        self.config_for = config_for
        self.files = files
        self.was_clean = False
        self.previous_broker_epoch = -1
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.failures: dict[TopicPartition, str] = {}
        """Partitions that could not be opened, with the reason."""
        self._directories: set[TopicPartition] = set()
        self.ignored: list[str] = []
        """What is named like a partition, but was not written by a broker."""
        self.doomed: list[tuple[int, str]] = []
        """Directories of deleted partitions, with the time to remove them."""
        self.on_doomed: Callable[[int], None] | None = None
        """Told that time, when a partition is deleted."""
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """Up to where each log is compacted; the cleaner moves it, the next checkpoint writes it."""
        self.snapshots_due: set[LogWriter] = set()
        """Logs with a large snapshot to be written, see `large_snapshots`."""
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_start_offsets: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._checkpoint_order = CheckpointOrder()
        self._lock_fd = -1

    @classmethod
    def open(
        cls,
        root: str,
        config_for: Callable[[str], LogConfig],
        disk: Disk | None = None,
        *,
        open_files_max: int = DEFAULT_MAX,
    ) -> LogManager:
        """Takes the directory (created if absent); `config_for` gives the settings of a topic's logs."""
        manager = cls(os.path.abspath(root), disk or Disk(), config_for, OpenFiles(open_files_max))
        try:
            manager._take()
        except OSError as error:
            reason = error.strerror or error
            raise StorageError(f"{error.filename or root}: {reason}; choose another directory with --data") from error
        return manager

    def _take(self) -> None:
        disk = self.disk
        # What clients wrote is nobody else's business. A directory that exists is left as it is.
        self._make_directory(self.root, mode=0o700)
        try:
            self._lock_fd = disk.lock(os.path.join(self.root, LOCK))
        except BlockingIOError:
            raise StorageError(
                f"data directory {self.root} is in use by another process; stop it, or choose another with --data"
            ) from None
        except NotADirectoryError:
            raise StorageError(f"{self.root} is not a directory; choose another with --data") from None
        epoch = checkpoints.take_clean_shutdown(disk, self.root)
        self.was_clean = epoch is not None
        self.previous_broker_epoch = -1 if epoch is None else epoch
        self._recovery_points = self._read(checkpoints.RECOVERY_POINTS)
        self._log_start_offsets = self._read(checkpoints.LOG_START_OFFSETS)
        self._high_watermarks = self._read(checkpoints.HIGH_WATERMARKS)
        self.cleaner_offsets = self._read(checkpoints.CLEANER_OFFSETS)
        for name in disk.listdir(self.root):
            found = _PARTITION.fullmatch(name)
            if _DELETED.fullmatch(name):
                self.doomed.append((0, os.path.join(self.root, name)))
            elif found is not None:
                self._take_partition((found[1], int(found[2])), name)

    def _take_partition(self, key: TopicPartition, name: str) -> None:
        is_listed = any(key in offsets for offsets in self._checkpoints().values())
        if is_listed or self._has_partition_files(os.path.join(self.root, name)):
            self._directories.add(key)
        else:
            self.ignored.append(name)

    def _has_partition_files(self, path: str) -> bool:
        if self.disk.exists(os.path.join(path, checkpoints.PARTITION_METADATA)):
            return True
        try:
            names = self.disk.listdir(path)
        except NotADirectoryError:
            return False
        except OSError:
            # It cannot be read: opening the partition reports why.
            return True
        return any(offset_of_file(name) is not None for name in names)

    def _make_directory(self, path: str, mode: int = 0o755) -> None:
        if not self.disk.exists(path):
            parent = os.path.dirname(path)
            self._make_directory(parent)
            self.disk.mkdir(path, mode)
            self.disk.fsync_dir(parent)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        offsets = checkpoints.read_offsets(self.disk, os.path.join(self.root, name))
        self._written[name] = dict(offsets)
        return offsets

    # -- whose directory it is -------------------------------------------------------------------------------

    def meta_properties(self) -> dict[str, str] | None:
        """None if the directory has none: no broker has used it yet."""
        return checkpoints.read_meta_properties(self.disk, self.root)

    def write_meta_properties(self, properties: Mapping[str, str]) -> None:
        checkpoints.write_meta_properties(self.disk, self.root, properties)

    # -- partitions ------------------------------------------------------------------------------------------

    def partitions(self) -> list[TopicPartition]:
        """All partitions that have a directory, opened or not."""
        return sorted(self._directories)

    def ignore(self, topic: str, partition: int) -> None:
        """Leaves the directory of a partition alone until the next start."""
        self._directories.discard((topic, partition))

    def unopened(self) -> list[TopicPartition]:
        """Partitions that nobody has asked for since the start."""
        return [key for key in self._directories if key not in self.logs and key not in self.failures]

    def due_ms(self, topic: str, partition: int, config: LogConfig) -> int:
        """When an unopened partition must be opened for its own sake, see `unopened_logs`."""
        from oncelog.broker.log import unopened_logs

        key = (topic, partition)
        return unopened_logs.due_ms(
            self.disk,
            self._path(topic, partition),
            config,
            self._log_start_offsets.get(key, 0),
            self.cleaner_offsets.get(key, 0),
        )

    def has_records(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self._directories and self.size_bytes(topic, partition) > 0

    def recover(self, now_ms: int) -> Iterator[TopicPartition]:
        """Opens every partition that needs recovery, giving each when it is done; failures are kept."""
        if self.was_clean:
            return
        for topic, partition in self.partitions():
            try:
                self.get(topic, partition, now_ms=now_ms)
            except StorageError as error:
                self.failures[topic, partition] = str(error)
            yield topic, partition
        self._note_recovered()
        self.was_clean = True

    def _note_recovered(self) -> None:
        """Without new checkpoints the next recovery has more to read. A full disk is to be read all the same."""
        try:
            self.write_checkpoints()
        except StorageError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            logger.error("%s", error)

    def get(self, topic: str, partition: int, *, now_ms: int) -> PartitionLog | None:
        """The log of a partition, opened if need be; None if it does not exist."""
        log = self.logs.get((topic, partition))
        if log is not None:
            return log
        return self._open(topic, partition, None, now_ms)

    def _open(self, topic: str, partition: int, topic_id: bytes | None, now_ms: int) -> PartitionLog | None:
        key = (topic, partition)
        if key in self.failures:
            raise StorageError(self.failures[key])
        if key not in self._directories:
            return None
        # Loaded for the first partition; a broker starts faster without it.
        from oncelog.broker.log.partition_log import PartitionLog

        log = PartitionLog.open(
            self._path(topic, partition),
            self.config_for(topic),
            self.disk,
            topic=topic,
            partition=partition,
            topic_id=topic_id,
            clean=self.was_clean,
            recovery_point=self._recovery_points.get(key, 0),
            log_start_offset=self._log_start_offsets.get(key, 0),
            now_ms=now_ms,
            files=self.files,
        )
        log.update_high_watermark(self._high_watermarks.get(key, 0))
        log.snapshots_due = self.snapshots_due
        self.logs[key] = log
        return log

    def _path(self, topic: str, partition: int) -> str:
        return os.path.join(self.root, f"{topic}-{partition}")

    def create(self, topic: str, partition: int, topic_id: bytes, *, now_ms: int) -> PartitionLog:
        """The log of a partition, which is made if it does not exist."""
        key = (topic, partition)
        if key not in self._directories:
            self._check_vacant(self._path(topic, partition))
            # A checkpoint of a deleted topic of the same name must not be held against the new one.
            self._forget(key)
            self._directories.add(key)
        log = self.logs.get(key) or self._open(topic, partition, topic_id, now_ms)
        assert log is not None
        if log.topic_id is None:
            log.write_topic_id(topic_id)
        elif log.topic_id != topic_id:
            raise StorageError(
                f"{log.directory} belongs to topic id {uuid_text(log.topic_id)}, not {uuid_text(topic_id)}"
            )
        return log

    def _check_vacant(self, path: str) -> None:
        """Raises StorageError if something else has the name. A crash may have left an empty directory."""
        if not self.disk.exists(path):
            return
        try:
            is_vacant = not self.disk.listdir(path)
        except NotADirectoryError:
            is_vacant = False
        if not is_vacant:
            raise StorageError(f"{path} is in the way: it is not a partition of this broker; move it elsewhere")

    def update_config(self, topic: str, partition_count: int) -> None:
        """Gives the open logs of a topic their new settings."""
        config = self.config_for(topic)
        for partition in range(partition_count):
            log = self.logs.get((topic, partition))
            if log is not None:
                log.config = config

    def delete(self, topic: str, partition: int, *, token: str, now_ms: int) -> None:
        """Takes a partition out of service; its files go later. `token` makes the name unique."""
        doomed = self._rename(topic, partition, f".{token}{DELETE_DIRECTORY}")
        if doomed is not None:
            when_ms = now_ms + self.config_for(topic).file_delete_delay_ms
            self.doomed.append((when_ms, doomed))
            if self.on_doomed is not None:
                self.on_doomed(when_ms)

    def set_aside(self, topic: str, partition: int, *, token: str) -> str | None:
        """Takes a partition out of service and keeps its files under another name, which is returned."""
        return self._rename(topic, partition, f".{token}{STRAY_DIRECTORY}")

    def _rename(self, topic: str, partition: int, suffix: str) -> str | None:
        """To a name that is no partition's; None if there is nothing to rename.

        The next checkpoints make the new name durable and forget the partition. They are not written here, as a topic
        may have thousands of partitions; a new partition of the same name waits for them in `create`.
        """
        key = (topic, partition)
        if key not in self._directories:
            return None
        log = self.logs.pop(key, None)
        if log is not None:
            log.close(clean=False)
        tail = f"-{partition}{suffix}"
        path = os.path.join(self.root, topic[: _NAME_MAX - len(tail)] + tail)
        is_renamed = False
        try:
            self.disk.rename(self._path(topic, partition), path)
            is_renamed = True
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StorageError(f"{topic}-{partition} cannot be renamed to {path}: {error}") from error
        self._directories.discard(key)
        self.failures.pop(key, None)
        for offsets in self._checkpoints().values():
            offsets.pop(key, None)
        return path if is_renamed else None

    def _forget(self, key: TopicPartition) -> None:
        """Makes sure that no checkpoint on disk has a partition of this name."""
        for offsets in self._checkpoints().values():
            offsets.pop(key, None)
        if any(key in written for written in self._written.values()) or self._checkpoint_order.may_write(key):
            self.write_checkpoints()

    def maybe_remove_files(self, now_ms: int) -> None:
        """Removes what was deleted `file.delete.delay.ms` ago: segments and whole partitions."""
        for log in self.logs.values():
            if log.doomed:
                log.maybe_remove_files(now_ms)
        due = [path for when_ms, path in self.doomed if when_ms <= now_ms]
        self.doomed = [(when_ms, path) for when_ms, path in self.doomed if when_ms > now_ms]
        for path in due:
            # What cannot be removed now is found and tried again at the next start.
            with suppress(OSError):
                for name in self.disk.listdir(path):
                    self.disk.unlink(os.path.join(path, name))
                self.disk.rmdir(path)

    def truncate_to(self, log: PartitionLog, offset: int, *, now_ms: int) -> bool:
        """Truncates a log after making sure that a crash would not miss the truncated part."""
        self._lower_recovery_point(log, offset)
        return log.truncate_to(offset, now_ms=now_ms)

    def truncate_fully_and_start_at(self, log: PartitionLog, offset: int, *, now_ms: int) -> None:
        self._lower_recovery_point(log, offset)
        log.truncate_fully_and_start_at(offset, now_ms=now_ms)

    def _lower_recovery_point(self, log: PartitionLog, offset: int) -> None:
        log.recovery_point = min(log.recovery_point, offset)
        key = (log.topic, log.partition)
        if self.cleaner_offsets.get(key, -1) > offset:
            self.cleaner_offsets[key] = offset
        if log.checkpointed_recovery_point > offset or self._checkpoint_order.is_pending:
            self.write_checkpoints()

    def size_bytes(self, topic: str, partition: int) -> int:
        """Bytes of records in a partition; does not open it."""
        log = self.logs.get((topic, partition))
        if log is not None:
            return log.size_bytes
        sizes = self.disk.file_sizes(self._path(topic, partition))
        return sum(size for name, size in sizes.items() if name.endswith(LOG))

    # -- checkpoints and the end -----------------------------------------------------------------------------

    def write_checkpoints(self) -> None:
        """Writes the checkpoints that have changed: the whole round at once, for callers that may block."""
        ticket = self.begin_checkpoints()
        ticket.run()
        self.complete_checkpoints(ticket)

    def begin_checkpoints(self) -> CheckpointTicket:
        """Gathers recovery points, log starts, high watermarks and cleaner offsets as they are now."""
        recovery_points = []
        for key, log in self.logs.items():
            self._recovery_points[key] = log.recovery_point
            recovery_points.append((log, log.recovery_point))
            self._high_watermarks[key] = log.high_watermark
            if log.log_start_offset > log.segments.base_offsets[0]:
                self._log_start_offsets[key] = log.log_start_offset
            else:
                self._log_start_offsets.pop(key, None)
        files = {
            name: dict(offsets)
            for name, offsets in self._checkpoints().items()
            if self._written[name] != offsets or self._checkpoint_order.is_pending
        }
        return CheckpointTicket(self.disk, self.root, self._checkpoint_order, files, recovery_points)

    def complete_checkpoints(self, ticket: CheckpointTicket) -> None:
        """Takes note of a ticket that has run; one that a later ticket overtook counts for nothing."""
        if ticket.error is not None:
            raise StorageError(f"checkpoints in {self.root} cannot be written: {ticket.error}") from ticket.error
        if ticket.counts:
            self._checkpoint_order.complete(ticket.number)
            self._written.update(ticket.files)
            for log, recovery_point in ticket.recovery_points:
                log.checkpointed_recovery_point = recovery_point

    def _checkpoints(self) -> dict[str, dict[TopicPartition, int]]:
        return {
            checkpoints.RECOVERY_POINTS: self._recovery_points,
            checkpoints.LOG_START_OFFSETS: self._log_start_offsets,
            checkpoints.HIGH_WATERMARKS: self._high_watermarks,
            checkpoints.CLEANER_OFFSETS: self.cleaner_offsets,
        }

    def close(self, *, broker_epoch: int = -1, clean: bool = True, map_logs: MapLogs = map) -> bool:
        """Closes all logs. True if all of them are closed cleanly, with the mark that makes the next start fast.

        `map_logs` is `map` or something like it that works on several logs at a time, as syncing them is slow.
        """
        # From here on files are only closed by their own log, which no other thread may do in the middle of its work.
        self.files.files_max = sys.maxsize
        closed = list(map_logs(lambda log: _close(log, clean), self.logs.values()))
        is_clean = clean and self.was_clean and not self.failures and all(closed)
        try:
            if clean:
                self.write_checkpoints()
            if is_clean:
                checkpoints.write_clean_shutdown(self.disk, self.root, broker_epoch)
            return is_clean
        finally:
            self.logs = {}
            self.disk.close(self._lock_fd)


def _close(log: PartitionLog, clean: bool) -> bool:
    """Whether the log is closed as it should be."""
    was_online = not log.is_offline
    try:
        log.close(clean=clean)
    except StorageError as error:
        logger.error("%s", error)
        return False
    return was_online
