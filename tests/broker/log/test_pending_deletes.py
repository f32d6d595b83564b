"""Files of deleted segments, whose names may be used again."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.broker.log.disk import Disk
from oncelog.broker.log.file_names import LOG, offset_file_name
from oncelog.broker.log.open_files import OpenFiles
from oncelog.broker.log.pending_deletes import DoomedSegments, retire
from oncelog.broker.log.segment import Segment


def test_a_segment_whose_files_are_removed_never_opens_them_again(tmp_path: Path) -> None:
    path = tmp_path / f"{offset_file_name(0, LOG)}.deleted"
    path.write_bytes(b"records")
    segment = Segment(Disk(), OpenFiles(), str(tmp_path), 0, sizes={path.name: 7}, created_ms=0, suffix=".deleted")
    segment.file()
    doomed = DoomedSegments()
    doomed.add([segment], 10)
    assert doomed.take(9) == []
    assert str(path) in retire(doomed.take(10))
    assert not doomed
    # As it is when the next cleaning has replaced a segment that begins at the same offset.
    with pytest.raises(OSError, match="the records are gone"):
        segment.file()


def test_the_earliest_go_first_and_no_more_than_asked_for() -> None:
    segments = [Segment(Disk(), OpenFiles(), "/t-0", base, sizes={}, created_ms=0) for base in range(5)]
    doomed = DoomedSegments()
    assert doomed.next_ms is None
    doomed.add(segments[:3], 1000)
    # As after file.delete.delay.ms was lowered.
    doomed.add(segments[3:], 500)
    assert doomed.next_ms == 500
    assert doomed.take(499) == []
    assert doomed.take(1000, 3) == [segments[3], segments[4], segments[0]]
    assert list(doomed) == segments[1:3]
    assert doomed.next_ms == 1000
