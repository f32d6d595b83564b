"""The build hook, as far as it can be tried without building a wheel."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parent.parent

pytest.importorskip("hatchling", reason="the build backend is not installed beside the tests")


@pytest.fixture(scope="module")
def hatch_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_hook(hatch_build: ModuleType, root: Path) -> dict[str, Any]:
    headers = [header.relative_to(ROOT) for header in ROOT.glob("oncelog/protocol/**/*.h")]
    for source in [*hatch_build.SOURCES, *headers]:
        (root / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, root / source)
    hook = hatch_build.NativeBuildHook(str(root), {}, None, None, str(root), "wheel")
    build_data: dict[str, Any] = {"artifacts": [], "pure_python": True}
    hook.initialize("standard", build_data)
    return build_data


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_wheel_with_the_extension_names_its_platform(
    hatch_build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    build_data = run_hook(hatch_build, tmp_path)
    binaries = ["oncelog/protocol/codec/_native.abi3.so", "oncelog/protocol/records/_native.abi3.so"]
    assert build_data["artifacts"] == binaries
    assert build_data["tag"].startswith("cp311-abi3-")
    assert not build_data["pure_python"]
    for binary, content in zip(binaries, ("NativeExecutor", "RecordScanner"), strict=True):
        spec = importlib.util.spec_from_file_location(Path(binary).name.partition(".")[0], tmp_path / binary)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert hasattr(module, content)


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_wheel_without_a_working_compiler_is_pure(
    hatch_build: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    compiler: str,
) -> None:
    if sys.platform == "win32":
        pytest.skip("there is no `false` on Windows")
    monkeypatch.setenv("CC", compiler)
    build_data = run_hook(hatch_build, tmp_path)
    assert build_data == {"artifacts": [], "pure_python": True}
    assert not list(tmp_path.rglob("*.so"))
    assert "without its C extensions" in capsys.readouterr().err
