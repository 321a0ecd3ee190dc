"""Syntax trees of the user's code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from chainrule.verify.trees import tree_of, tree_of_file


@pytest.mark.parametrize("text", ["", "def f(:", "\0", "  x = 1\n y = 2", "x" + "\n" * 3])
def test_what_is_no_python_has_nothing_in_it(text: str) -> None:
    names = [n.id for n in ast.walk(tree_of(text)) if isinstance(n, ast.Name)]
    assert names == (["x"] if text.startswith("x") else [])


def test_indented_code_is_read_as_it_stands() -> None:
    (statement,) = tree_of("    y = (x +\n         1)\n").body
    assert ast.unparse(statement) == "y = x + 1"
    assert statement.lineno == 1


def test_a_file_is_read_once_and_one_that_is_not_there_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n", encoding="utf-8")
    assert tree_of_file(str(file)) is tree_of_file(str(file))
    assert tree_of_file(str(tmp_path / "b.py")).body == []
