"""Compiles the two C modules of the project while a wheel or an editable install is built.

The extensions make codecs and the check of produced records fast, and nothing depends on them: without a C compiler,
Python's headers or a CPython with the limited API the package is built without them and uses plain Python. A binary is
put beside its source, which is where an editable install looks for it.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RELEASE = ("-O2", "-DNDEBUG")
SANITIZERS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
"""For tests: the first invalid access or undefined operation ends the process with a report."""

SOURCES = (Path("oncelog/protocol/codec/_native.c"), Path("oncelog/protocol/records/_native.c"))


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the extensions to the wheel, and the platform to the wheel's name, if they can be compiled."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        binaries = [source.with_suffix(".abi3.so") for source in SOURCES]
        for source, binary in zip(SOURCES, binaries, strict=True):
            problem = compile_extension(root / source, root / binary)
            if problem:
                for each in binaries:
                    (root / each).unlink(missing_ok=True)
                self.app.display_info(f"oncelog: building the {version} wheel without its C extensions: {problem}")
                return
        # Files that git ignores are left out of a wheel unless they are named as artifacts.
        build_data["artifacts"] += [binary.as_posix() for binary in binaries]
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform_tag()}"


def platform_tag() -> str:
    """Name this platform as wheels do, without a claim about the age of its C library."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compile_extension(source: Path, binary: Path, options: tuple[str, ...] = RELEASE) -> str | None:
    """Compile `source` to `binary`; if that fails, return the reason in a few words."""
    problem = _missing_requirement()
    if problem:
        return problem
    # A running broker may have the old file mapped, so the new one takes its name instead of its bytes.
    fresh = binary.with_suffix(f".{os.getpid()}.tmp")
    command = [*_compiler(), *_flags(), *options, str(source), "-o", str(fresh)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            return (result.stderr.strip().splitlines() or [f"{command[0]} failed"])[0]
        fresh.replace(binary)
    finally:
        fresh.unlink(missing_ok=True)
    return None


def _missing_requirement() -> str | None:
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this interpreter has no limited API"
    if sys.platform == "win32":
        return "not on Windows"
    compiler = _compiler()
    if not compiler or shutil.which(compiler[0]) is None:
        return "there is no C compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "Python's headers are not installed"
    return None


def _compiler() -> list[str]:
    """Prefer the user's CC, then what is called cc here; Python may have been built by another compiler."""
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def _flags() -> list[str]:
    link = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    include = sysconfig.get_path("include")
    return ["-std=c11", "-Wall", "-fPIC", "-fvisibility=hidden", f"-I{include}", *link]
