"""Small text files beside the logs, in Apache Kafka's formats.

Checkpoint (`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`,
`replication-offset-checkpoint`, `cleaner-offset-checkpoint`): a version line `0`, a line with the number of
entries, then one line `topic partition offset` each. `leader-epoch-checkpoint` has the same head and lines
`epoch start-offset`.

`partition.metadata`: `version: 0`, newline, `topic_id: <base64 uuid>`.
`.kafka_cleanshutdown`: JSON with `version` and `brokerEpoch`.
`meta.properties`: Java properties `version=1`, `cluster.id`, `node.id`, `directory.id`.

All are replaced atomically, so a reader finds an old or a new content, never half of one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from oncelog.broker.log.disk import Disk, StorageError
from oncelog.protocol.primitives import uuid_from_text, uuid_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"

_VERSION = 0
_SPECIAL = re.compile(r"[\\=:#!]")
"""Characters that Java escapes in the values of a properties file."""

TopicPartition = tuple[str, int]


def encode_lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines)).encode()


def decode_lines(data: bytes) -> list[str]:
    """The entry lines; raises ValueError if the file is torn or of an unknown version.

    One without a byte has none: so Apache Kafka makes its files, before it has something to write.
    """
    lines = data.decode().split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if not lines:
        return []
    if int(lines[0]) != _VERSION:
        raise ValueError(f"version {lines[0]} is unknown")
    if len(lines) < 2:
        raise ValueError("the number of entries is missing")
    if len(lines) != 2 + int(lines[1]):
        raise ValueError(f"{lines[1]} entries were announced and {len(lines) - 2} are there")
    return lines[2:]


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    disk.write_file_durably(path, encode_lines(lines))


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """An absent checkpoint is an empty one; a damaged one is an error, as its loss may not go unseen.

    One without a byte is no damage: Kafka makes such, and ours are on disk before they get their name.
    """
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        return {}
    try:
        offsets = {}
        for line in decode_lines(data):
            topic, partition, offset = line.split()
            offsets[topic, int(partition)] = int(offset)
    except ValueError as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    return offsets


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}".encode()


def read_partition_metadata(disk: Disk, directory: str) -> bytes | None:
    """The topic's id; None if the file is absent or was torn by a crash right after its creation."""
    try:
        text = disk.read_file(os.path.join(directory, PARTITION_METADATA)).decode()
        found = re.fullmatch(r"version: 0\s+topic_id: (\S+)\s*", text)
        return uuid_from_text(found.group(1)) if found else None
    except (FileNotFoundError, ValueError):
        return None


def write_clean_shutdown(disk: Disk, root: str, broker_epoch: int) -> None:
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.write_file_durably(os.path.join(root, CLEAN_SHUTDOWN), content.encode())


def take_clean_shutdown(disk: Disk, root: str) -> int | None:
    """Removes the mark and returns its broker epoch (-1 if it has none); None if there was no mark.

    The removal is durable before this returns: a mark that came back after a power cut would vouch for
    data written since. It may be that a start that was killed has removed it, and nobody has synced that.
    """
    path = os.path.join(root, CLEAN_SHUTDOWN)
    try:
        data = disk.read_file(path)
        disk.unlink(path)
    except FileNotFoundError:
        return None
    finally:
        disk.fsync_dir(root)
    try:
        epoch = json.loads(data)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return -1
    return epoch if isinstance(epoch, int) else -1


def write_meta_properties(disk: Disk, root: str, properties: Mapping[str, str]) -> None:
    escaped = {key: _SPECIAL.sub(r"\\\g<0>", value) for key, value in {"version": "1", **properties}.items()}
    lines = "".join(f"{key}={value}\n" for key, value in escaped.items())
    disk.write_file_durably(os.path.join(root, META_PROPERTIES), f"#\n{lines}".encode("latin-1"))


def read_meta_properties(disk: Disk, root: str) -> dict[str, str] | None:
    """None if the file is absent."""
    try:
        text = disk.read_file(os.path.join(root, META_PROPERTIES)).decode("latin-1")
    except FileNotFoundError:
        return None
    pairs = (line.partition("=") for line in text.splitlines() if line.strip() and line[0] not in "#!")
    return {key.strip(): re.sub(r"\\(.)", r"\1", value.strip()) for key, _, value in pairs}
