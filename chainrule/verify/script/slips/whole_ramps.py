"""Shares of what is done by now that were to rise from 0 to 1, and are whole numbers."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import TypeGuard

from chainrule.verify.script.slips.slip import Slip
from chainrule.verify.trees import last_word


def whole_ramps(tree: ast.AST) -> Iterator[Slip]:
    """`min(1, step // warmup)`, which is 0 and then 1; `max(0, 1 - step // total)`."""
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.Assign | ast.Return)]
    for statement in map(copy.deepcopy, statements):
        found = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and _is_bounded(n)]
        for call in found:
            division = next(n for n in ast.walk(call) if _is_floor(n))
            says = f"`{ast.unparse(division)}` is a whole number, so that what is bounded by 0 and "
            says += "1 here is one of the two, and never between them"
            division.op = ast.Div()
            after = ast.unparse(statement) if statement.lineno == statement.end_lineno else ""
            yield Slip("wrong_value", call.lineno, says, "divide by `/`", after)


def _is_bounded(call: ast.Call) -> bool:
    """Whether it is the smaller one of 1 and a quotient, or the larger one of 0 and what is left of
    1."""
    name = last_word(call.func)
    if name not in ("min", "max") or len(call.args) != 2 or call.keywords:
        return False
    bounds = [x for x in call.args if _is_number(x, 1 if name == "min" else 0)]
    others = [x for x in call.args if x not in bounds]
    if len(bounds) != 1 or len(others) != 1:
        return False
    share = others[0]
    if name == "max" and isinstance(share, ast.BinOp) and isinstance(share.op, ast.Sub):
        return _is_number(share.left, 1) and _is_floor(share.right)
    return name == "min" and _is_floor(share)


def _is_number(x: ast.expr, value: int) -> bool:
    return isinstance(x, ast.Constant) and not isinstance(x.value, bool) and x.value == value


def _is_floor(x: ast.AST) -> TypeGuard[ast.BinOp]:
    """Whether it is a division of values, as `step // warmup`, that leaves whole numbers."""
    return isinstance(x, ast.BinOp) and isinstance(x.op, ast.FloorDiv)
