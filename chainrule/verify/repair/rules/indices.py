"""Whole numbers that say which elements, or how many turns: one more, one less, another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.fit import ADD, as_part
from chainrule.verify.repair.code.syntax import names_in
from chainrule.verify.repair.prior import RARE, USUAL
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import is_count, plain


def other_turns(scene: Scene) -> Iterator[Edit]:
    """A loop that begins or ends one turn earlier or later, `range(n - 1)` to `range(n)`, or has
    another number of turns."""
    for node in scene.expressions:
        match node:
            case ast.Call(func=ast.Name(id="range"), args=args):
                bounds = args[:2]
            case _:
                continue
        for bound in bounds:
            yield from [scene.put(bound, t, "region", USUAL) for t in _one_off(scene, bound)]
            for name in [k for k in scene.counts if k.isidentifier() and k not in scene.counters]:
                if name not in names_in(bound):
                    yield scene.put(bound, name, "region", RARE)


def other_index(scene: Scene) -> Iterator[Edit]:
    """Another whole number in an index or in the bounds of a slice; an array of indices that are
    one too large, or one too small."""
    inside = {
        e for n in scene.draft.nodes if isinstance(n, ast.Subscript) for e in ast.walk(n.slice)
    }
    names = [k for k, v in scene.watched.names.items() if is_count(v)]
    for node in scene.expressions:
        value = plain(scene.value(node))
        if value is None or value.dtype.kind != "i":
            continue
        here, within = scene.draft.src(node), node in inside
        several = value.ndim and isinstance(scene.draft.parents[node], ast.Tuple)
        sums = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)
        if (within and not value.ndim) or several or (sums and not value.ndim):
            yield from [scene.put(node, t, "wrong_value", RARE) for t in _one_off(scene, node)]
        if within and not value.ndim:
            near = [f"{i} {sign} 1" for i in scene.counters for sign in "-+"]
            for text in [*names, *(near if isinstance(node, ast.Constant) else [])]:
                if text != here:
                    yield scene.put(node, text, "wrong_value", RARE)


def _one_off(scene: Scene, bound: ast.expr) -> list[str]:
    here = as_part(scene.draft, bound, ADD)
    match bound:
        case ast.Constant(value=int() as n):
            return [str(n - 1), str(n + 1)]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as n)):
            return [str(1 - n), str(-1 - n)]
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=ast.Constant(value=int())):
            return [scene.draft.src(left), f"{here} - 1", f"{here} + 1"]
        case _:
            return [f"{here} - 1", f"{here} + 1"]
