"""Loops that change parameters by themselves: being told when a turn of one begins.

Neither an optimizer nor a backward pass is to be seen there. So the script tells of the head of
each such loop (`code_hooks.py`), of the calls of functions that state a derivative (`pairs.py`),
and of sums at indices (`index_sums.py`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TypeAlias, cast

from chainrule.verify.script.byhand import index_sums, pairs
from chainrule.verify.script.byhand.code_hooks import TURNS
from chainrule.verify.script.byhand.updates import updates_in

Loop: TypeAlias = ast.For | ast.While


def loop_at(tree: ast.AST, line: int) -> Loop | None:
    """The loop that begins on a line."""
    return next((n for n in _loops(tree) if n.lineno == line), None)


def with_calls(tree: ast.Module) -> ast.Module:
    """A copy whose loops tell of their turns, if an update may be in one of these."""
    if not any(True for _ in updates_in(tree)):
        return tree
    reaching = _reaching(tree)
    made = copy.deepcopy(tree)
    for loop in _loops(made):
        if any(map(reaching, loop.body)):
            TURNS.put_into(loop.body, 0, loop.lineno)
    return ast.fix_missing_locations(made)


def _loops(tree: ast.AST) -> Iterator[Loop]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While))


def _reaching(tree: ast.Module) -> Callable[[ast.AST], bool]:
    """Whether a node holds an update, or calls by name what does."""
    named = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    known = set[str]()

    def reaches(node: ast.AST) -> bool:
        return not known.isdisjoint(_called_names(node)) or any(
            True for _ in updates_in(_block(node))
        )

    while found := {f.name for f in named if f.name not in known and reaches(f)}:
        known |= found
    return reaches


def _block(node: ast.AST) -> ast.AST:
    """A node as what has a block, where statements are looked for."""
    return ast.Module([node], []) if isinstance(node, ast.stmt) else node


def _called_names(node: ast.AST) -> Iterator[str]:
    calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    for f in calls:
        if isinstance(f, ast.Name):
            yield f.id
        elif isinstance(f, ast.Attribute):
            yield f.attr


def compile_telling(text: bytes, file: str) -> CodeType:
    """That of a script; `SyntaxError` and `ValueError` as of `compile`."""
    tree = compile(text, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    return compile(telling(cast("ast.Module", tree)), file, "exec", dont_inherit=True)


def telling(tree: ast.Module) -> ast.Module:
    """The same for a tree, which is left as it is."""
    return index_sums.with_calls(pairs.with_calls(with_calls(tree)))
