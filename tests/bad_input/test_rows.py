"""The claim that every row of the list of bad input has a test, or waits for the part of the work that it needs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.bad_input.rows import ROW_COUNT, ROWS, ROWS_LATER

HERE = Path(__file__).parent


def functions_of(module: str) -> set[str]:
    tree = ast.parse((HERE / f"{module}.py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_no_row_is_forgotten() -> None:
    assert set(ROWS) | set(ROWS_LATER) == set(range(1, ROW_COUNT + 1))


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_of_a_row_exist(row: int) -> None:
    assert ROWS[row]
    for name in ROWS[row]:
        module, _, function = name.partition("::")
        assert function.startswith("test_")
        assert function in functions_of(module), name
