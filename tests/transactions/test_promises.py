"""The claim that every line of what exactly-once takes has a test."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.transactions.promises import PROMISES

TESTS = Path(__file__).parent.parent


@cache
def functions_of(file: str) -> set[str]:
    """Also those of classes, which group tests."""
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("promise", PROMISES)
def test_the_tests_of_a_promise_exist(promise: str) -> None:
    assert PROMISES[promise]
    for name in PROMISES[promise]:
        file, _, function = name.partition("::")
        assert function.startswith("test_")
        assert function in functions_of(file), name
