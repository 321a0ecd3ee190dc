"""A function is a screen of code, a file one idea, a folder a page of names.

Docstrings do not count: what is explained well is not longer to read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FUNCTION = 40
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


def test_a_long_function_is_seen_and_a_long_docstring_is_none():
    body = "\n".join(["    x = 1"] * 40)
    text = "\n".join(["    more"] * 50)
    source = f'def f():\n    """One.\n\n{text}\n    """\n{body}\n'
    assert dict(functions(source)) == {"f": 41}
    assert dict(functions(f"class A:\n  async def g(self):\n{body}\n")) == {"g": 41}
