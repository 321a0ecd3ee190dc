"""A function is a screen of code, a file one idea, a folder a page of names.

Docstrings do not count: what is explained well is not longer to read.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FUNCTION, FILE, FOLDER = 40, 300, 22
EXPLAINED = 15
"""Lines from which on a function of the package says what it is for."""
PLACES = ("chainrule", "bench", "scripts", "tests", "docs", "examples")
FILES = {
    str(p.relative_to(ROOT)): p.read_text(encoding="utf-8")
    for place in PLACES
    for p in sorted((ROOT / place).rglob("*.py"))
}

LONG_FUNCTIONS = {
    ("chainrule/engine/graph.py", "apply"): "each op runs through it: a call more is 50 ns more",
    ("chainrule/engine/derive.py", "_carry_back"): "the same for each node of a backward pass",
}
LONG_FILES = {
    "chainrule/__init__.py": "a table of names",
    "chainrule/nn/__init__.py": "a table of names",
    "chainrule/engine/methods/signatures.py": "written by scripts/method_signatures.py",
    "chainrule/engine/tensors.py": "one class: a tensor has the methods that it has",
    "chainrule/engine/graph.py": "recording, tracing and making nodes ask each other at each op",
    "chainrule/engine/derive.py": "a sweep transposes rules, and a transposed rule is a sweep",
    "chainrule/ops/families.py": "rules of rows sum over what broadcasting repeats, which is an op",
}
"""What is longer, and why."""


def docstring_lines(tree: ast.AST) -> int:
    """How many lines the texts take that stand as statements: docstrings, and those of names."""
    return sum(
        node.end_lineno - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and node.end_lineno is not None
    )


def functions(text: str) -> Iterator[tuple[str, int]]:
    """The functions of a file, also those in classes and in functions, and their lines of code."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            end: Any = node.end_lineno
            yield node.name, end - node.lineno + 1 - docstring_lines(node)


@pytest.mark.parametrize("place", PLACES)
def test_a_function_is_one_screen(place: str):
    files = {name: text for name, text in FILES.items() if name.startswith(f"{place}/")}
    found = {(n, f): size for n, text in files.items() for f, size in functions(text)}
    long = {at: size for at, size in found.items() if size > FUNCTION}
    assert long.keys() == {at for at in LONG_FUNCTIONS if at in found}, long


def without_docstring(text: str) -> Iterator[tuple[str, int]]:
    """Functions and methods without a docstring, and their lines."""
    tree = ast.parse(text)
    classes = [c for c in ast.walk(tree) if isinstance(c, ast.ClassDef)]
    for node in [*tree.body, *[m for c in classes for m in c.body]]:
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is None:
            end: Any = node.end_lineno
            yield node.name, end - node.lineno + 1


def is_row(name: str) -> bool:
    """Whether it is a special method, or `_`: one for a class, of a function that dispatches."""
    return name.startswith("__") or name == "_"


def test_a_long_function_says_what_it_is_for():
    files = {name: text for name, text in FILES.items() if name.startswith("chainrule/")}
    rows = [(n, f, size) for n, text in files.items() for f, size in without_docstring(text)]
    special = [(n, f) for n, f, size in rows if size >= EXPLAINED and not is_row(f)]
    assert not special
    assert dict(without_docstring("def f():\n    x = 1\n")) == {"f": 2}


def code_lines(text: str) -> int:
    """The lines of a file that are no docstrings."""
    return text.count("\n") - docstring_lines(ast.parse(text))


@pytest.mark.parametrize("place", ["chainrule", "bench", "scripts"])
def test_a_file_is_one_idea(place: str):
    files = {name: text for name, text in FILES.items() if name.startswith(f"{place}/")}
    long = {name: n for name, text in files.items() if (n := code_lines(text)) > FILE}
    assert long.keys() == {name for name in LONG_FILES if name in files}, long


@pytest.mark.parametrize("place", [place for place in PLACES if place != "docs"])
def test_a_folder_is_a_page_of_names(place: str):
    """The steps of the docs are numbered: as many files as there are."""
    folders = Counter(str(Path(name).parent) for name in FILES if name.startswith(f"{place}/"))
    assert not {folder: n for folder, n in folders.items() if n > FOLDER}


def test_a_long_function_is_seen_and_a_long_docstring_is_none():
    body = "\n".join(["    x = 1"] * 40)
    text = "\n".join(["    more"] * 50)
    source = f'def f():\n    """One.\n\n{text}\n    """\n{body}\n'
    assert dict(functions(source)) == {"f": 41}
    assert dict(functions(f"class A:\n  async def g(self):\n{body}\n")) == {"g": 41}
    assert code_lines(source) == 41 and code_lines("x = 1\n" * 40) == 40
