"""What is added up where a term may be missing: a multiple of it has a wrong factor instead."""

from __future__ import annotations

import ast

import numpy as np

from chainrule.verify.repair.response import CLOSE
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import is_sum
from chainrule.verify.repair.watch import plain
from chainrule.verify.subject import Array


def added_up(scene: Scene, node: ast.expr) -> list[Array]:
    """The values of all terms of the sum that a node is part of, flat; its own if it is in none."""
    whole = node
    while is_sum(parent := scene.draft.parents[whole]) and isinstance(parent, ast.expr):
        whole = parent
    held = [plain(scene.value(e)) for e in terms_of(whole)]
    return [v.reshape(-1) for v in held if v is not None and np.any(v)]


def is_there(value: Array, held: list[Array]) -> bool:
    """Whether a value is a multiple of one that is added up already."""
    flat = value.reshape(-1)
    return any(_is_multiple(flat, v) for v in held)


def terms_of(node: ast.expr) -> list[ast.expr]:
    """What a sum adds up or takes off; of anything else, itself."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return [*terms_of(left), *terms_of(right)]
        case _:
            return [node]


def _is_multiple(a: Array, b: Array) -> bool:
    if a.shape != b.shape or a.size < 2:
        return False
    rest = a - (np.vdot(b, a) / np.vdot(b, b)) * b
    return bool(np.linalg.norm(rest) <= CLOSE * np.linalg.norm(a))
