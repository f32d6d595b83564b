"""Files of deleted segments, whose names may be used again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.broker.log import doomed_files
from oncelog.broker.log.disk import Disk
from oncelog.broker.log.file_names import LOG, offset_file_name
from oncelog.broker.log.open_files import OpenFiles
from oncelog.broker.log.segment import Segment


def test_a_segment_whose_files_are_removed_never_opens_them_again(tmp_path: Path) -> None:
    path = tmp_path / f"{offset_file_name(0, LOG)}.deleted"
    path.write_bytes(b"records")
    segment = Segment(Disk(), OpenFiles(), str(tmp_path), 0, sizes={path.name: 7}, created_ms=0, suffix=".deleted")
    segment.file()
    log = SimpleNamespace(doomed=[(10, segment)])
    logs: Any = SimpleNamespace(logs={("t", 0): log}, doomed=[])
    assert doomed_files.take(logs, 9).files == []
    assert str(path) in doomed_files.take(logs, 10).files
    assert log.doomed == []
    # As it is when the next cleaning has replaced a segment that begins at the same offset.
    with pytest.raises(OSError, match="the records are gone"):
        segment.file()
