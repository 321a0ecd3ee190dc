"""A value combined with an atom: the cotangent, what is computed and never read, a mask."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import MUL, as_operand, operand
from chainrule.verify.repair.code.syntax import is_simple, names_in, writes
from chainrule.verify.repair.rule_costs import SHOWN, USUAL
from chainrule.verify.repair.values.expression_pool import fills, with_axes
from chainrule.verify.repair.values.scene import Scene, Shape
from chainrule.verify.repair.values.watch import plain, shape_of


def missing_cotangent(scene: Scene) -> Iterator[Edit]:
    """A factor that is the cotangent, in the right shape, for each value on the way to a gradient
    that it has no part in."""
    if all(scene.flows(n) for n in _gradients(scene)):
        return
    forms = list(_forms(scene))
    for root in [*scene.roots, *_numbers_put(scene)]:
        value = plain(scene.value(root))
        named = is_simple(root) and scene.draft.span(root) not in scene.renamed
        if scene.flows(root) or named or value is None or not np.any(value):
            continue
        here = as_operand(scene.draft, root, MUL)
        for text, shape, cost in forms:
            if fills(shape, value.shape) or fills(value.shape, shape):
                whole = f"{here} * {operand(text, MUL + 1)}"
                yield scene.put(root, whole, "ignores_cotangent", USUAL + cost)


def _gradients(scene: Scene) -> list[ast.expr]:
    """Arrays that the function returns, or puts into something."""
    given = [n for n in scene.returned if scene.shape(n)]
    put = [n for n in scene.roots if _is_put(scene.draft.parents[n])]
    return [*given, *put, *_numbers_put(scene)]


def _numbers_put(scene: Scene) -> list[ast.expr]:
    """Numbers that are put into elements of an array, one for all of them."""
    statements = [n for n in scene.draft.nodes if isinstance(n, ast.stmt)]
    return [value for _, _, value in writes(statements) if scene.shape(value) == ()]


def _is_put(parent: ast.AST) -> bool:
    match parent:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Dict():
            return True
        case ast.AugAssign(op=ast.Add() | ast.Sub()):
            return True
        case _:
            return False


def _forms(scene: Scene) -> Iterator[tuple[str, Shape, float]]:
    """Cotangents as they come, as the code spreads them already, and with further axes."""
    most = max([len(scene.shape(n) or ()) for n in scene.roots], default=0)
    seen = set[str]()
    for node in scene.expressions:
        names = names_in(node) & {*scene.draft.parameters, *scene.watched.names}
        text, shape = scene.draft.src(node), scene.shape(node)
        alone = bool(names) and names <= scene.cotangents and not isinstance(node, ast.BinOp)
        if alone and shape is not None and text not in seen:
            seen.add(text)
            yield text, shape, 0.0
    for name in sorted(scene.cotangents):
        shape = shape_of(scene.watched.names.get(name))
        if shape:
            yield from [f for f in with_axes(name, shape, most) if f[0] not in seen]


def unread_values(scene: Scene) -> Iterator[Edit]:
    """What is computed, or taken out of what was saved, and never read, combined with what it fits
    to: `p * dp` to `p * (dp - inner)`."""
    names = {k: scene.watched.names.get(k) for k in sorted(scene.unread)}
    names = {k: v for k, v in names.items() if shape_of(v) or isinstance(v, float)}
    places = [n for n in scene.expressions if names and scene.flows(n) and _is_operand(scene, n)]
    for (name, value), node in itertools.product(names.items(), places):
        small, large = shape_of(value) or (), scene.shape(node) or ()
        if not fills(small, large):
            continue
        here, parent = scene.draft.src(node), scene.draft.parents[node]
        same = [k for k, v in scene.arrays_at(node).items() if shape_of(v) == large]
        rows = [(f"{here} {sign} {name}", "missing_term", 0.0) for sign in "-+"]
        rows += [
            (f"{here} {sign} {k} * {name}", "missing_term", 0.4)
            for sign in "-+" for k in same if k not in (name, here)
        ]  # fmt: skip
        rows += [(f"{here} {sign} {name}", "factor", 0.1) for sign in "*/"]
        for text, code, more in rows:
            inside = isinstance(parent, ast.BinOp | ast.UnaryOp)
            yield scene.put(node, f"({text})" if inside else text, code, SHOWN + more)


def _is_operand(scene: Scene, node: ast.expr) -> bool:
    """Whether it is a name, a call or a term of which something is computed."""
    parent = scene.draft.parents[node]
    match node:
        case ast.Attribute() | ast.Call() | ast.Subscript() | ast.Name(ctx=ast.Load()):
            simple = True
        case ast.BinOp(op=ast.Mult() | ast.Div()):
            simple = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub)
        case _:
            simple = False
    inside = isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Assign | ast.Return | ast.Tuple)
    return simple and inside


def is_bool(scene: Scene, node: ast.expr) -> bool:
    """Whether a node was a mask."""
    return str(getattr(scene.value(node), "dtype", "")).endswith("bool")
