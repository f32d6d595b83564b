"""The C modules, built with the address and undefined-behaviour sanitizers, under random input.

`ONCELOG_FUZZ_SECONDS` says for how long (`make fuzz`), `ONCELOG_FUZZ_SEED` repeats a run.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.protocol.native.fuzz import MODULES

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]
SECONDS = float(os.environ.get("ONCELOG_FUZZ_SECONDS", "4"))
SEED = int(os.environ.get("ONCELOG_FUZZ_SEED", random.randrange(1 << 32)))
SETTINGS = {
    # So that each object of Python's has its own block of memory, with a guarded zone around it.
    "PYTHONMALLOC": "malloc",
    # The interpreter does not free everything at its end.
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
}


@pytest.fixture(scope="module")
def hatch_build() -> ModuleType:
    pytest.importorskip("hatchling", reason="the build backend is not installed beside the tests")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runtime() -> Path:
    """The sanitizer's library, which must be loaded before the interpreter's own allocations."""
    if sys.platform != "linux":
        pytest.skip("the library is preloaded as on Linux")
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    try:
        asked = [*compiler, "-print-file-name=libasan.so"]
        found = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no C compiler")
    if not found.is_absolute():
        pytest.skip("the C compiler has no address sanitizer")
    return found


@pytest.fixture(scope="module")
def binaries(hatch_build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sanitized")
    for name in MODULES:
        source = ROOT / f"{name.replace('.', '/')}.c"
        problem = hatch_build.compile_extension(source, directory / f"{name}.so", hatch_build.SANITIZERS)
        if problem:
            pytest.skip(f"the C modules cannot be built with sanitizers: {problem}")
    return directory


def run(runtime: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | SETTINGS | {"LD_PRELOAD": str(runtime)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Shadow memory range interleaves" in done.stderr:
        pytest.skip("the compiler's sanitizer is too old for the address layout of this kernel")
    return done


@pytest.mark.fuzz
@pytest.mark.timeout(120 + 2 * SECONDS)
def test_random_input_finds_no_fault(runtime: Path, binaries: Path) -> None:
    done = run(runtime, "-m", "tests.protocol.native.fuzz", str(SECONDS), str(SEED), str(binaries))
    assert done.returncode == 0, f"seed {SEED}:\n{done.stderr[-6000:]}"
    assert int(done.stdout) > 0


FAULTS = {
    "heap-buffer-overflow": "volatile char *volatile a = malloc(4); a[argument] = 1; free((void *)a);",
    "signed integer overflow": "argument += INT32_MAX;",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_sanitizers_are_at_work(runtime: Path, hatch_build: ModuleType, tmp_path: Path, fault: str) -> None:
    """A module with a fault ends the process."""
    source = tmp_path / "faulty.c"
    source.write_text(
        "#define Py_LIMITED_API 0x030B0000\n#include <Python.h>\n#include <stdint.h>\n#include <stdlib.h>\n"
        "static PyObject *run(PyObject *self, PyObject *number) {"
        f" volatile int argument = (int)PyLong_AsLong(number); {FAULTS[fault]} return PyLong_FromLong(argument); }}\n"
        'static PyMethodDef methods[] = {{"run", run, METH_O, ""}, {0}};\n'
        'static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "faulty", "", 0, methods};\n'
        "PyMODINIT_FUNC PyInit_faulty(void) { return PyModuleDef_Init(&definition); }\n"
    )
    problem = hatch_build.compile_extension(source, tmp_path / "faulty.so", hatch_build.SANITIZERS)
    assert problem is None
    done = run(runtime, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import faulty; faulty.run(5)")
    assert done.returncode != 0
    assert fault in done.stderr
