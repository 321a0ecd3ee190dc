"""Syntax trees of the user's code."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest

from chainrule.verify.trees import tree_of, tree_of_file, users_trees


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


def test_only_files_that_have_the_word_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"with_fc": "self.fc = 1\n", "without": "self.other = 1\n", "not_python": "fc = (\n"}
    for name, text in texts.items():
        file = tmp_path / f"{name}.py"
        file.write_text(text, encoding="utf-8")
        module = ModuleType(name)
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, name, module)
    parsed: list[str] = []
    parse = ast.parse

    def noted(text: str) -> ast.Module:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(ast, "parse", noted)
    found = {
        Path(f).stem: ast.unparse(t) for f, t in users_trees("fc") if f.startswith(str(tmp_path))
    }
    assert found == {"with_fc": "self.fc = 1", "not_python": ""}
    assert texts["without"] not in parsed and texts["with_fc"] in parsed
