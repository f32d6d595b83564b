from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oncelog.inspect.findings import Finding, Severity
from oncelog.inspect.log_file import LogFile
from oncelog.inspect.verify import Totals
from oncelog.inspect.verify_data import NothingToVerify, find, log_size_bytes, verify
from tests.inspect.damage import DAMAGES, Damage, batches, files
from tests.inspect.partition_builder import PartitionBuilder, build_partition


def check(path: Path, *, compacted: bool = False) -> list[Finding]:
    return list(verify(path, find(path, compacted=compacted), Totals(), lambda _: None))


def errors(path: Path) -> list[str]:
    return [finding.line() for finding in check(path) if finding.severity is Severity.ERROR]


def kinds(path: Path, severity: Severity = Severity.ERROR) -> set[str]:
    return {finding.kind for finding in check(path) if finding.severity is severity}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_partition(tmp_path_factory.mktemp("built") / "data")


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built.parent, tmp_path / "data")
    return tmp_path / "data" / built.name


def test_a_sound_partition_has_no_errors(built: Path) -> None:
    totals, read = Totals(), 0

    def progress(size_bytes: int) -> None:
        nonlocal read
        read += size_bytes

    partitions = find(built.parent)
    findings = list(verify(built.parent, partitions, totals, progress))
    assert [(finding.kind, finding.severity) for finding in findings] == [("open-transaction", Severity.NOTE)]
    assert (totals.partitions, totals.segments, totals.batches) == (1, 2, 18)
    assert read == totals.size_bytes == log_size_bytes(partitions)
    assert errors(built) == []


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_damage_is_found(copy: Path, damage: Damage) -> None:
    expected = damage(copy)
    assert kinds(copy) & expected, check(copy)
    assert kinds(copy.parent) & expected


def test_a_finding_says_where(copy: Path) -> None:
    path = files(copy, ".log")[0]
    position, header = batches(path)[3]
    data = bytearray(path.read_bytes())
    data[position + header.size_bytes - 1] ^= 1
    path.write_bytes(data)
    (line,) = errors(copy)
    assert line.startswith(f"{path}:{position} offset {header.base_offset}: error: the checksum of a batch ")
    assert line.endswith(" [crc]")


def test_one_damaged_batch_does_not_make_all_that_follows_suspicious(copy: Path) -> None:
    for damage in DAMAGES:
        if damage.__name__ in ("a_flipped_bit_in_a_record", "a_wrong_offset", "a_flipped_bit_in_a_header"):
            again = copy.parent.with_name(damage.__name__) / copy.name
            shutil.copytree(copy.parent, again.parent)
            damage(again)
            found = [finding for finding in check(again) if finding.kind in ("crc", "offset", "framing", "sequence")]
            assert len(found) == 1, found


# -- after a crash -------------------------------------------------------------------------------------------


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """Nothing but the first segment is promised to be on disk."""
    directory = build_partition(tmp_path / "data", clean=False)
    bases = [int(path.stem) for path in files(directory, ".log")]
    (directory.parent / "recovery-point-offset-checkpoint").write_text(f"0\n1\nbuilt 0 {bases[-1]}\n")
    return directory


def test_a_torn_end_is_left_to_recovery(crashed: Path) -> None:
    path = files(crashed, ".log")[-1]
    path.write_bytes(path.read_bytes()[:-7])
    assert kinds(crashed.parent) <= {"log-short"}
    assert "torn-end" in kinds(crashed.parent, Severity.NOTE)


def test_zeros_behind_the_end_are_room_for_more(crashed: Path) -> None:
    for path in (*files(crashed, ".log")[-1:], *files(crashed, ".index")[-1:], *files(crashed, ".timeindex")[-1:]):
        path.write_bytes(path.read_bytes() + bytes(1200))
    assert kinds(crashed) == set()
    assert "torn-end" not in kinds(crashed, Severity.NOTE)


def test_half_a_batch_before_zeros_is_a_torn_end(crashed: Path) -> None:
    path = files(crashed, ".log")[-1]
    path.write_bytes(path.read_bytes()[:-7] + bytes(1200))
    assert kinds(crashed) <= {"log-short"}
    assert "torn-end" in kinds(crashed, Severity.NOTE)


def test_a_torn_batch_before_a_whole_one_is_a_torn_end(crashed: Path) -> None:
    """Two batches that were not synced reach the disk in any order."""
    path = files(crashed, ".log")[-1]
    with LogFile(path) as file:
        *_, last = file.batches()
        torn, whole = bytearray(last.data), bytes(last.data)
    torn[-1] ^= 1
    path.write_bytes(path.read_bytes()[: last.position] + bytes(torn) + whole + bytes(1200))
    assert kinds(crashed) <= {"log-short"}
    assert "torn-end" in kinds(crashed, Severity.NOTE)


def test_indexes_of_the_last_segment_may_be_missing(crashed: Path) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        files(crashed, suffix)[-1].unlink()
    assert kinds(crashed) == set()


def test_damage_below_the_recovery_point_is_an_error(crashed: Path) -> None:
    path = files(crashed, ".log")[0]
    path.write_bytes(path.read_bytes()[:-7])
    assert "framing" in kinds(crashed)


def test_a_partition_by_itself_is_judged_without_promises(crashed: Path, tmp_path: Path) -> None:
    alone = tmp_path / "elsewhere" / "built-0"
    shutil.copytree(crashed, alone)
    assert kinds(alone) == set()


# -- what may look like damage -------------------------------------------------------------------------------


def test_retention_may_have_removed_the_beginning(copy: Path) -> None:
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (copy / f"{0:020d}{suffix}").unlink(missing_ok=True)
    epochs = copy / "leader-epoch-checkpoint"
    assert errors(copy) == []
    assert epochs.exists()


def test_gaps_are_fine_where_the_log_was_compacted(copy: Path) -> None:
    path = files(copy, ".log")[0]
    position, header = batches(path)[1]
    data = path.read_bytes()
    path.write_bytes(data[:position] + data[position + header.size_bytes :])
    for suffix in (".index", ".timeindex"):
        (copy / f"{0:020d}{suffix}").unlink()
    assert "offset" in kinds(copy)
    last_base = int(files(copy, ".log")[-1].stem)
    (copy.parent / "cleaner-offset-checkpoint").write_text(f"0\n1\nbuilt 0 {last_base}\n")
    assert "offset" not in kinds(copy)
    (copy.parent / "cleaner-offset-checkpoint").unlink()
    assert "offset" not in {finding.kind for finding in check(copy, compacted=True)}


def test_leftovers_are_notes(copy: Path) -> None:
    (copy / f"{0:020d}.log.deleted").write_bytes(b"")
    (copy / f"{9:020d}.index").write_bytes(b"")
    assert errors(copy) == []
    assert "leftover" in kinds(copy, Severity.NOTE)


def test_an_empty_partition(tmp_path: Path) -> None:
    builder = PartitionBuilder(tmp_path / "data")
    builder.close()
    assert check(tmp_path / "data") == []


def test_what_cannot_be_verified(tmp_path: Path) -> None:
    with pytest.raises(NothingToVerify, match="does not exist"):
        find(tmp_path / "missing")
    with pytest.raises(NothingToVerify, match="neither a partition nor a data directory"):
        find(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NothingToVerify, match="is not a directory"):
        find(tmp_path / "file")
