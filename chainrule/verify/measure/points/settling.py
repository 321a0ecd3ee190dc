"""Forwards that turn round until nothing changes: a fixed point, a root, an equilibrium.

Their backward is that of the limit. Where the turns do not get there, at values that nobody gave,
it is another one than that of what was computed, and right all the same.
"""

from __future__ import annotations

import ast

from chainrule.verify.subject import Source
from chainrule.verify.trees import tree_of


def settles(source: Source | None) -> bool:
    """Whether a forward has a loop that makes a value of itself, the same way in each turn, and
    keeps nothing of the turns."""
    if source is None:
        return False
    nodes = ast.walk(tree_of(source.forward_text))
    return any(isinstance(n, ast.For | ast.While) and _is_same_again(n) for n in nodes)


def _is_same_again(loop: ast.For | ast.While) -> bool:
    counter = _names(loop.target) if isinstance(loop, ast.For) else set[str]()
    body = [n for s in loop.body for n in ast.walk(s)]
    counts = any(isinstance(n, ast.Name) and n.id in counter for n in body)
    return not counts and not any(_keeps(n) for n in body) and _is_remade(loop.body)


def _is_remade(body: list[ast.stmt]) -> bool:
    """Whether a name gets a value in a turn that is made of the one that it had."""
    read = set[str]()
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AugAssign):
            read |= _names(statement.value)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if read & {n for t in targets for n in _names(t)}:
                return True
    return False


def _keeps(node: ast.AST) -> bool:
    """Whether something is put into a list, or into a place in an array."""
    match node:
        case ast.Call(func=ast.Attribute(attr="append" | "insert" | "extend")):
            return True
        case ast.Subscript(ctx=ast.Store()):
            return True
        case _:
            return False


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
