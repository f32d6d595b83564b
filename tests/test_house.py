"""Claims that the house makes of itself: its registry, its docstrings, its folder names."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import oncelog
from oncelog.broker.handlers import APIS, Api
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.messages import request_class, response_class

ROOT = Path(__file__).parent.parent
HANDLERS = ROOT / "oncelog" / "broker" / "handlers"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.stem)
def test_a_handler_opens_with_its_name_key_and_versions(api: Api) -> None:
    module = importlib.import_module(f"oncelog.broker.handlers.{api.key.stem}")
    first_line = (module.__doc__ or "").splitlines()[0]
    versions = f"version {api.version_min}" if api.version_min == api.version_max else None
    versions = versions or f"versions {api.version_min}-{api.version_max}"
    assert first_line.startswith(f"{api.key.camel} (key {int(api.key)}, {versions}): "), first_line


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.stem)
def test_versions_are_those_of_the_declared_messages(api: Api) -> None:
    for declared in (request_class(api.key), response_class(api.key)):
        assert api.version_min in declared.VERSIONS
        assert api.version_max == declared.VERSIONS.last
    assert api.key == request_class(api.key).API_KEY


def test_every_handler_is_registered_and_in_the_order_of_keys() -> None:
    stems = {path.stem for path in HANDLERS.glob("*.py")} - {"__init__"}
    assert stems == {api.key.stem for api in APIS.values()}
    assert list(APIS) == sorted(APIS)


def test_an_answer_without_an_error_code_at_its_top_has_a_way_to_say_an_error() -> None:
    for api in APIS.values():
        module = importlib.import_module(f"oncelog.broker.handlers.{api.key.stem}")
        names = {field.name for field in response_class(api.key).fields() if api.version_min in field.versions}
        assert "error_code" in names or hasattr(module, "error_reply"), api.key.stem


def test_every_module_can_be_loaded() -> None:
    """Many are loaded when they are first needed, when it would be too late to find out."""
    for module in pkgutil.walk_packages(oncelog.__path__, "oncelog."):
        # PySpark is an extra; tests of their own load what needs it.
        if not module.name.startswith(("oncelog.spark", "oncelog.pipeline.", "oncelog.__main__")):
            importlib.import_module(module.name)


def test_traps_of_the_protocol_are_kept() -> None:
    assert APIS[ApiKey.PRODUCE].advertised_min == 0
    assert APIS[ApiKey.INIT_PRODUCER_ID].version_max == 5


def test_no_file_names_a_path_of_a_machine_or_a_registry() -> None:
    hosts = r"pypi\.org|repo1?\.maven|registry\.npmjs|proxy\.golang|deb\.debian"
    forbidden = re.compile(rf"/work/|/root/|{hosts}")
    for path in ROOT.rglob("*"):
        if path.suffix in (".py", ".toml", ".md", ".txt", ".xml", ".yml", ".c", ".sh") and not any(
            part.startswith(".") or part in ("build", "dist") for part in path.relative_to(ROOT).parts
        ):
            if path == Path(__file__):
                continue
            found = forbidden.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{path.relative_to(ROOT)}: {found[0] if found else ''}"
