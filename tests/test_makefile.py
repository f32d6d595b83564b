"""What `make` says while it works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_setup_says_what_it_does_before_it_takes_its_time(tmp_path: Path) -> None:
    """Without an index pip ends at once, and nothing is installed."""
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    # The tests may have been started by make.
    outer = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    venv = tmp_path / "venv"
    done = subprocess.run(
        ["make", "setup", f"VENV={venv}", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        env=outer | offline,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout.splitlines()[0] == f"Setting up {venv}; it takes about half a minute, once."
