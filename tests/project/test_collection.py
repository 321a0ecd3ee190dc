"""Tests come in one order in every process: several processes share them out by their number.

A set has another order in each process, so nothing that a test is parametrized over is one.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILES = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests").rglob("test_*.py"))]


def unordered(text: str, scope: dict[str, Any]) -> Iterator[str]:
    """Sets among what tests are parametrized over, as the text has them."""
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("parametrize"):
            for given in call.args[1:]:
                yield from (ast.unparse(n) for n in _iterated(given) if _is_set(n, scope))


def _iterated(node: ast.AST) -> Iterator[ast.expr]:
    """The parts of an expression that give their order to the whole."""
    match node:
        case ast.Call(func=ast.Name(id="sorted")):
            return
        case ast.List() | ast.Tuple():
            for x in node.elts:
                if isinstance(x, ast.Starred):
                    yield from _iterated(x.value)
        case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
            for generator in node.generators:
                yield from _iterated(generator.iter)
        case ast.BinOp():
            yield from (node, *_iterated(node.left), *_iterated(node.right))
        case ast.Call():
            for x in node.args:
                yield from _iterated(x)
        case ast.expr():
            yield node
        case _:
            return


def _is_set(node: ast.expr, scope: dict[str, Any]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if not isinstance(node, ast.Name | ast.Attribute | ast.BinOp):
        return False
    try:
        return isinstance(eval(ast.unparse(node), scope), set | frozenset)
    except NameError:  # of a comprehension's own
        return False


@pytest.mark.parametrize("file", FILES)
def test_parametrized_over_what_has_an_order(file: str):
    text = (ROOT / file).read_text(encoding="utf-8")
    if "parametrize(" in text:
        scope = vars(importlib.import_module(file.removesuffix(".py").replace("/", ".")))
        assert list(unordered(text, scope)) == []


@pytest.mark.parametrize(
    "over",
    ["{1, 2}", "SOME", "SOME - {1}", "[0, *SOME]", "[f(x) for x in SOME]", "list(SOME)"],
)
def test_sets_are_found(over: str):
    assert list(unordered(f"@pytest.mark.parametrize('x', {over})\ndef f(): ...", {"SOME": {1, 2}}))
    assert not list(unordered(f"parametrize('x', sorted({over}))", {"SOME": {1, 2}}))
