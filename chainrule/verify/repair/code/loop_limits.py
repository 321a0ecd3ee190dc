"""Loops that have to end: every `while` of a changed function may take so many turns only."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

TURNS = 20_000
"""Turns that a `while` loop of a changed function may take."""


def with_limit(root: ast.AST) -> Any:
    """A function's tree, each turn of whose `while` loops asks `__turn__` (see `limit`)."""
    return _Guard().visit(root)


class _Guard(ast.NodeTransformer):
    """Every `while test` becomes `while __turn__() and test`."""

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        turn = ast.Call(ast.Name("__turn__", ast.Load()), [], [])
        node.test = ast.BoolOp(ast.And(), [turn, node.test])
        return ast.fix_missing_locations(ast.copy_location(node, node))


def limit() -> Callable[[], bool]:
    """What `__turn__` is in a function: it raises when the turns are used up."""
    left = [TURNS]

    def turn() -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError(f"a loop took more than {TURNS} turns")
        return True

    return turn
