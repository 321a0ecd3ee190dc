"""What a script shows when a loop is over: expressions that may be its loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.script.byhand.text import printed_parts, shows_its_arguments
from chainrule.verify.trees import blocks


def expressions_behind(tree: ast.AST, loop: ast.stmt) -> tuple[str, ...]:
    """Expressions that are printed, kept or returned behind a loop, and behind those around it."""
    return tuple(dict.fromkeys([ast.unparse(e) for e in _shown(tree, loop)]))


def _shown(tree: ast.AST, loop: ast.stmt) -> Iterator[ast.expr]:
    for block in reversed(list(blocks(tree))):  # the innermost first
        at = next((i for i, s in enumerate(block) if _holds(s, loop)), None)
        for s in [] if at is None else block[at + 1 :]:
            match s:
                case ast.Expr(value=ast.Call(func=f, args=args)) if shows_its_arguments(f):
                    yield from printed_parts(args)
                case ast.Return(value=ast.expr() as value):
                    yield from printed_parts([value])
                case _:
                    pass


def _holds(statement: ast.stmt, loop: ast.stmt) -> bool:
    return statement.lineno <= loop.lineno <= (statement.end_lineno or 0)
