"""The program for `python -m oncelog.pipeline`, and for spark-submit, which runs this file by its path."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    directory = Path(__file__).resolve().parent
    if not __package__ and sys.path[0] == str(directory):
        # As a plain file it has its own directory on the path, where its modules would hide others of their names.
        sys.path[0] = str(directory.parents[1])
    from oncelog.pipeline.commands import run_as_program

    return run_as_program()


if __name__ == "__main__":
    sys.exit(main())
