"""What a task leaves behind in its worker process."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark`")

from oncelog.spark.tasks import quick_next_task


def archive(path: Path, *modules: str) -> str:
    with zipfile.ZipFile(path, "w") as made:
        for module in modules:
            made.writestr(f"{module}.py", f"name = {module!r}\n")
    return str(path)


def test_archives_are_not_read_again_but_still_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkFiles

    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(files))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    sparks = archive(tmp_path / "spark.zip", "of_spark_first", "of_spark_second")
    jobs = archive(files / "job.zip", "of_the_job")
    monkeypatch.syspath_prepend(sparks)
    monkeypatch.syspath_prepend(jobs)
    with quick_next_task():
        assert importlib.import_module("of_spark_first").name == "of_spark_first"
        assert sparks in sys.path_importer_cache
    assert sparks not in sys.path_importer_cache
    assert jobs in sys.path_importer_cache
    importlib.invalidate_caches()
    assert importlib.import_module("of_spark_second").name == "of_spark_second"
    assert importlib.import_module("of_the_job").name == "of_the_job"
    for module in ("of_spark_first", "of_spark_second", "of_the_job"):
        del sys.modules[module]
