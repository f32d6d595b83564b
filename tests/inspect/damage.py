"""Ways to damage the files of a partition, and what a check has to say about each.

Every function takes the directory of a partition with at least two segments, transactions and an idempotent
producer, whoever wrote it, and returns the kinds of findings of which one must be there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from oncelog.broker.log import checkpoints, offset_index, producer_snapshot, time_index, txn_index
from oncelog.broker.log.producer_entry import ProducerBatch
from oncelog.inspect.log_file import LogFile
from oncelog.protocol.records.batch import BatchHeader, compute_crc, read_header

Damage = Callable[[Path], set[str]]
DAMAGES: list[Damage] = []


def damage(function: Damage) -> Damage:
    DAMAGES.append(function)
    return function


# -- tools ---------------------------------------------------------------------------------------------------


def files(directory: Path, suffix: str) -> list[Path]:
    return sorted(path for path in directory.glob(f"*{suffix}") if path.stat().st_size)


def batches(path: Path) -> list[tuple[int, BatchHeader]]:
    with LogFile(path) as file:
        return [(batch.position, batch.header) for batch in file.batches()]


def find(directory: Path, wanted: Callable[[BatchHeader], bool], skip: int = 0) -> tuple[Path, int, BatchHeader]:
    found = [
        (path, position, header)
        for path in files(directory, ".log")
        for position, header in batches(path)
        if wanted(header)
    ]
    return found[skip]


def patch(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def rewrite_batch(path: Path, position: int, change: Callable[[bytearray], None]) -> None:
    """Changes a batch and gives it the CRC that then is right: a mistake of software, not of a disk."""
    data = bytearray(path.read_bytes())
    header = read_header(data, position)
    batch = data[position : position + header.size_bytes]
    change(batch)
    struct.pack_into(">I", batch, 17, compute_crc(memoryview(batch)))
    patch(path, position, bytes(batch))


def is_data(header: BatchHeader) -> bool:
    return not header.is_control


def is_sequenced(header: BatchHeader) -> bool:
    return header.base_sequence > 0


def remove(path: Path, start: int, end: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:start] + data[end:])


# -- the log -------------------------------------------------------------------------------------------------


@damage
def a_flipped_bit_in_a_record(directory: Path) -> set[str]:
    path, position, _ = find(directory, is_data)
    data = path.read_bytes()
    patch(path, position + 70, bytes([data[position + 70] ^ 4]))
    return {"crc"}


@damage
def a_flipped_bit_in_a_header(directory: Path) -> set[str]:
    path, position, _ = find(directory, is_data, 1)
    data = path.read_bytes()
    patch(path, position + 40, bytes([data[position + 40] ^ 1]))
    return {"crc"}


@damage
def a_wrong_magic(directory: Path) -> set[str]:
    path, position, _ = find(directory, is_data, 1)
    patch(path, position + 16, b"\x01")
    return {"framing"}


@damage
def a_wrong_length(directory: Path) -> set[str]:
    path, position, header = find(directory, is_data, 1)
    patch(path, position + 8, struct.pack(">i", header.batch_length + 1))
    return {"framing", "crc"}


@damage
def a_block_of_zeros(directory: Path) -> set[str]:
    path, position, _ = find(directory, is_data, 1)
    patch(path, position, bytes(61))
    return {"framing"}


@damage
def a_cut_off_end(directory: Path) -> set[str]:
    path = files(directory, ".log")[-1]
    path.write_bytes(path.read_bytes()[:-7])
    return {"framing"}


@damage
def a_lost_last_batch(directory: Path) -> set[str]:
    path = files(directory, ".log")[-1]
    position, _ = batches(path)[-1]
    path.write_bytes(path.read_bytes()[:position])
    return {"log-short"}


@damage
def a_missing_segment(directory: Path) -> set[str]:
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        for path in sorted(directory.glob(f"*{suffix}"))[:1]:
            path.rename(path.with_suffix(suffix + ".gone"))
    # The oldest segment may go, by retention; what is checked here is a hole.
    directory.joinpath(f"{0:020d}.log").write_bytes(b"")
    return {"offset"}


@damage
def a_missing_batch(directory: Path) -> set[str]:
    path, position, header = find(directory, is_data, 2)
    remove(path, position, position + header.size_bytes)
    return {"offset"}


@damage
def a_repeated_batch(directory: Path) -> set[str]:
    path, position, header = find(directory, is_data, 2)
    data = path.read_bytes()
    end = position + header.size_bytes
    path.write_bytes(data[:end] + data[position:end] + data[end:])
    return {"offset"}


@damage
def a_wrong_offset(directory: Path) -> set[str]:
    path, position, header = find(directory, is_data, 2)
    patch(path, position, struct.pack(">q", header.base_offset + 1))
    return {"offset"}


@damage
def a_batch_below_its_segment(directory: Path) -> set[str]:
    path = files(directory, ".log")[-1]
    patch(path, 0, struct.pack(">q", 0))
    return {"offset"}


@damage
def a_leader_epoch_that_goes_down(directory: Path) -> set[str]:
    path, position, _ = find(directory, lambda header: header.leader_epoch == 0, 1)
    patch(path, position + 12, struct.pack(">i", 9))
    return {"leader-epoch", "epoch-file"}


@damage
def records_that_the_header_does_not_count(directory: Path) -> set[str]:
    path, position, header = find(directory, lambda header: header.record_count > 1 and is_data(header))
    rewrite_batch(path, position, lambda batch: struct.pack_into(">i", batch, 57, header.record_count - 1))
    return {"records"}


@damage
def a_record_with_a_wrong_length(directory: Path) -> set[str]:
    path, position, _ = find(directory, lambda header: is_data(header) and not header.attributes & 7)

    def change(batch: bytearray) -> None:
        batch[61] ^= 2

    rewrite_batch(path, position, change)
    return {"records"}


@damage
def a_body_that_cannot_be_decompressed(directory: Path) -> set[str]:
    path, position, _ = find(directory, lambda header: header.attributes & 7 == 4)

    def change(batch: bytearray) -> None:
        batch[61:65] = b"\0\0\0\0"

    rewrite_batch(path, position, change)
    return {"records"}


# -- producers and transactions ------------------------------------------------------------------------------


def set_sequence(path: Path, position: int, sequence: int) -> None:
    rewrite_batch(path, position, lambda batch: struct.pack_into(">i", batch, 53, sequence))


@damage
def a_gap_in_the_sequences(directory: Path) -> set[str]:
    path, position, header = find(directory, is_sequenced)
    set_sequence(path, position, header.base_sequence + 1)
    return {"sequence"}


@damage
def a_sequence_that_is_written_twice(directory: Path) -> set[str]:
    path, position, _ = find(directory, is_sequenced)
    set_sequence(path, position, 0)
    return {"sequence"}


@damage
def a_producer_epoch_that_goes_down(directory: Path) -> set[str]:
    path, position, _ = find(directory, lambda header: header.producer_id >= 0 and is_data(header))
    rewrite_batch(path, position, lambda batch: struct.pack_into(">h", batch, 51, 9))
    return {"producer-epoch"}


@damage
def a_record_outside_of_an_open_transaction(directory: Path) -> set[str]:
    def change(batch: bytearray) -> None:
        batch[22] &= ~0x10

    open_since: dict[int, int] = {}
    for path in files(directory, ".log"):
        for position, header in batches(path):
            if header.is_control:
                open_since.pop(header.producer_id, None)
            elif header.is_transactional:
                if header.producer_id in open_since:
                    rewrite_batch(path, position, change)
                    return {"outside-transaction"}
                open_since[header.producer_id] = position
    raise AssertionError("no transaction has two batches")


@damage
def a_marker_of_an_older_coordinator(directory: Path) -> set[str]:
    path, position, _ = find(directory, lambda header: header.is_control)

    def change(batch: bytearray) -> None:
        # The value of a marker ends with the coordinator's epoch and the count of headers.
        struct.pack_into(">i", batch, len(batch) - 5, 99)

    rewrite_batch(path, position, change)
    return {"coordinator-epoch", "snapshot-differs"}


@damage
def an_abort_that_became_a_commit(directory: Path) -> set[str]:
    entry = txn_index.decode(files(directory, ".txnindex")[0].read_bytes())[0]
    path, position, _ = find(directory, lambda header: header.is_control and header.base_offset == entry.last_offset)

    def change(batch: bytearray) -> None:
        at = batch.index(b"\0\0\0\0", 65)
        batch[at + 3] = 1

    rewrite_batch(path, position, change)
    return {"txn-index-extra"}


# -- indexes -------------------------------------------------------------------------------------------------


@damage
def an_index_entry_to_the_middle_of_a_batch(directory: Path) -> set[str]:
    path = files(directory, ".index")[0]
    relative, position = offset_index.ENTRY.unpack_from(path.read_bytes())
    patch(path, 0, offset_index.ENTRY.pack(relative, position + 1))
    return {"index-position"}


@damage
def an_index_entry_for_another_offset(directory: Path) -> set[str]:
    path = files(directory, ".index")[0]
    relative, position = offset_index.ENTRY.unpack_from(path.read_bytes())
    patch(path, 0, offset_index.ENTRY.pack(relative - 1, position))
    return {"index-offset"}


@damage
def index_entries_out_of_order(directory: Path) -> set[str]:
    path = files(directory, ".index")[0]
    data = path.read_bytes()
    path.write_bytes(data + data[: offset_index.ENTRY_SIZE])
    return {"index-order"}


@damage
def half_an_index_entry(directory: Path) -> set[str]:
    path = files(directory, ".index")[0]
    path.write_bytes(path.read_bytes()[:-3])
    return {"index-size"}


@damage
def zeros_behind_a_closed_index(directory: Path) -> set[str]:
    path = files(directory, ".index")[0]
    path.write_bytes(path.read_bytes() + bytes(80))
    return {"index-padding"}


@damage
def a_wrong_time_in_the_time_index(directory: Path) -> set[str]:
    path = files(directory, ".timeindex")[0]
    timestamp, relative = time_index.ENTRY.unpack_from(path.read_bytes())
    patch(path, 0, time_index.ENTRY.pack(timestamp - 1, relative))
    return {"time-index-timestamp"}


@damage
def a_wrong_offset_in_the_time_index(directory: Path) -> set[str]:
    path = files(directory, ".timeindex")[0]
    timestamp, _ = time_index.ENTRY.unpack_from(path.read_bytes())
    patch(path, 0, time_index.ENTRY.pack(timestamp, 2**31 - 1))
    return {"time-index-offset"}


@damage
def a_time_index_that_goes_back(directory: Path) -> set[str]:
    path = files(directory, ".timeindex")[0]
    data = path.read_bytes()
    path.write_bytes(data + data[: time_index.ENTRY_SIZE])
    return {"time-index-order"}


@damage
def a_time_index_without_its_end(directory: Path) -> set[str]:
    path = files(directory, ".timeindex")[0]
    path.write_bytes(path.read_bytes()[: -time_index.ENTRY_SIZE])
    return {"time-index-short"}


@damage
def a_txn_index_that_is_gone(directory: Path) -> set[str]:
    files(directory, ".txnindex")[0].unlink()
    return {"txn-index-missing"}


@damage
def a_txn_index_with_another_producer(directory: Path) -> set[str]:
    path = files(directory, ".txnindex")[0]
    aborted = txn_index.decode(path.read_bytes())
    path.write_bytes(txn_index.encode([aborted[0]._replace(producer_id=77), *aborted[1:]]))
    return {"txn-index-extra"}


@damage
def a_txn_index_with_another_stable_offset(directory: Path) -> set[str]:
    path = files(directory, ".txnindex")[0]
    aborted = txn_index.decode(path.read_bytes())
    changed = aborted[0]._replace(last_stable_offset=aborted[0].last_stable_offset + 1)
    path.write_bytes(txn_index.encode([changed, *aborted[1:]]))
    return {"txn-index-extra"}


@damage
def a_torn_txn_index(directory: Path) -> set[str]:
    path = files(directory, ".txnindex")[0]
    path.write_bytes(path.read_bytes()[:-1])
    return {"txn-index-damaged"}


# -- small files ---------------------------------------------------------------------------------------------


@damage
def a_flipped_bit_in_a_snapshot(directory: Path) -> set[str]:
    path = files(directory, ".snapshot")[-1]
    data = path.read_bytes()
    patch(path, 20, bytes([data[20] ^ 1]))
    return {"snapshot-damaged"}


@damage
def a_snapshot_with_another_sequence(directory: Path) -> set[str]:
    path = files(directory, ".snapshot")[-1]
    entries = producer_snapshot.decode(path.read_bytes())
    entry = next(entry for entry in entries if entry.batches)
    first, last, *rest = entry.batches[-1]
    entry.batches[-1] = ProducerBatch(first + 1, last + 1, *rest)
    path.write_bytes(producer_snapshot.encode(entries))
    return {"snapshot-differs"}


@damage
def a_snapshot_without_a_transaction(directory: Path) -> set[str]:
    path = files(directory, ".snapshot")[-1]
    entries = producer_snapshot.decode(path.read_bytes())
    next(entry for entry in entries if entry.txn_first_offset >= 0).txn_first_offset = -1
    path.write_bytes(producer_snapshot.encode(entries))
    return {"snapshot-differs"}


@damage
def a_snapshot_without_a_producer(directory: Path) -> set[str]:
    path = files(directory, ".snapshot")[-1]
    entries = producer_snapshot.decode(path.read_bytes())
    kept = [entry for entry in entries if entry.txn_first_offset < 0]
    assert kept != entries
    path.write_bytes(producer_snapshot.encode(kept))
    return {"snapshot-missing"}


@damage
def a_snapshot_beyond_the_end(directory: Path) -> set[str]:
    path = files(directory, ".snapshot")[-1]
    path.rename(directory / f"{10**6:020d}.snapshot")
    return {"snapshot-offset"}


@damage
def a_leader_epoch_file_that_says_otherwise(directory: Path) -> set[str]:
    (directory / "leader-epoch-checkpoint").write_bytes(checkpoints.encode_lines(["5 0"]))
    return {"epoch-file"}


@damage
def a_torn_leader_epoch_file(directory: Path) -> set[str]:
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n9\n0 0\n")
    return {"epoch-file"}


@damage
def a_leader_epoch_file_that_is_gone(directory: Path) -> set[str]:
    (directory / "leader-epoch-checkpoint").unlink()
    return {"epoch-file"}


@damage
def a_torn_partition_metadata(directory: Path) -> set[str]:
    (directory / "partition.metadata").write_bytes(b"version: 0\n")
    return {"partition-metadata"}


@damage
def a_torn_checkpoint(directory: Path) -> set[str]:
    (directory.parent / "recovery-point-offset-checkpoint").write_bytes(b"0\n5\n")
    return {"checkpoint"}
