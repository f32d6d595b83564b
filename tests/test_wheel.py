"""What the wheel brings: the package, the pipeline in it, and no other name in site-packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md")

pytest.importorskip("hatchling", reason="the build backend is not installed beside the tests")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, without the C extensions, which have a test of their own."""
    copy, made = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "oncelog", copy / "oncelog", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
    done = subprocess.run(
        command, cwd=copy, env=os.environ | {"CC": "false"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = made.iterdir()
    return found


def test_the_package_is_its_only_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"oncelog"}
    for name in ("__main__.py", "etl.py", "pom.xml", "sql/trace.sql"):
        assert f"oncelog/pipeline/{name}" in names


def test_the_pipeline_starts_from_it(wheel: Path, tmp_path: Path) -> None:
    """Away from the checkout, and as a plain file too, which is how spark-submit runs it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = tmp_path / "oncelog" / "pipeline" / "__main__.py"
    for start in (["-m", "oncelog.pipeline"], [str(program)]):
        done = subprocess.run(
            [sys.executable, *start, "program"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout.strip()) == (0, str(program)), done.stderr
