"""How many pieces something has: the last one may be shorter than the others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import UNARY, as_part
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.watch import is_count


def rounded_up(scene: Scene) -> Iterator[Edit]:
    """A number of pieces with the one that is not full: `n // k` to `-(-n // k)`."""
    for node in scene.expressions:
        match node:
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=right):
                whole, size = scene.value(left), scene.value(right)
            case _:
                continue
        if is_count(whole) and is_count(size) and size > 0 and whole % size:
            pieces = f"-{as_part(scene.draft, left, UNARY)} // {scene.draft.src(right)}"
            yield scene.put(node, f"-({pieces})", "lengths", 0.5)


def to_the_end(scene: Scene) -> Iterator[Edit]:
    """Pieces up to the end: `range(0, n - k + 1, k)`, or `range(0, n - n % k, k)`, to
    `range(0, n, k)`."""
    for node in scene.expressions:
        match node:
            case ast.Call(func=ast.Name(id="range"), args=[_, ast.BinOp() as end, step]):
                size = scene.value(step)
            case _:
                continue
        first: ast.expr = end
        while isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add | ast.Sub):
            first = first.left
        if first is not end and is_count(size) and size > 1:
            yield scene.put(end, scene.draft.src(first), "lengths", 0.5)
