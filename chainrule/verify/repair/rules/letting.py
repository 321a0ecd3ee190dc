"""The cotangent, where a gradient is made that does not depend on it: J^T 1 to J^T g."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import MUL, as_part, part
from chainrule.verify.repair.pool import fills, with_axes
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.syntax import is_simple, names_in, undone, writes
from chainrule.verify.repair.watch import plain, shape_of


def let_in(scene: Scene) -> Iterator[Edit]:
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
        here = as_part(scene.draft, root, MUL)
        for text, shape, cost in forms:
            if fills(shape, value.shape) or fills(value.shape, shape):
                whole = f"{here} * {part(text, MUL + 1)}"
                yield scene.put(root, whole, "ignores_cotangent", 1.1 + cost)


def offsets(scene: Scene) -> Iterator[Edit]:
    """The cotangent, or its sum, as a factor of a term that has none, beside one that has: `g - p`
    to `g - p * g.sum(axis=-1, keepdims=True)`, of a log-softmax."""
    for node in scene.draft.nodes:
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
                terms = [(left, right), (right, left)]
            case ast.AugAssign(op=ast.Add() | ast.Sub(), target=ast.Name() as left, value=right):
                terms = [(right, left)]
            case _:
                continue
        for alone, beside in terms:
            if scene.flows(alone) or not scene.flows(beside) or not scene.shape(alone):
                continue
            here = as_part(scene.draft, alone, MUL)
            for form, code, cost in _beside(scene, alone, beside):
                yield scene.put(alone, f"{here} * {form}", code, cost)


def _beside(scene: Scene, alone: ast.expr, beside: ast.expr) -> Iterator[tuple[str, str, float]]:
    """Factors that a term may lack, what their lack is called, and how unlikely it is: the
    cotangents that the term beside it has, and their sums; another cotangent, of another result."""
    held = scene.cotangents & names_in(beside)
    for name in sorted(held):
        yield from [(form, "missing_term", 1.1) for form in _sums(scene, name)]
    if any(undone(name) for name in names_in(alone) & scene.made):
        return  # It belongs where that is computed.
    wanted = scene.shape(alone) or ()
    as_array = any(f"{name}.numpy()" in scene.draft.body for name in scene.cotangents)
    for name in sorted(scene.cotangents - scene.read):
        shape = shape_of(scene.watched.names.get(name)) or ()
        here = f"{name}.numpy()" if as_array else name
        for text, made, _ in with_axes(here, shape, len(wanted)):
            if fills(made, wanted):
                yield part(text, MUL + 1), "ignores_cotangent", 1.3


def _sums(scene: Scene, name: str) -> list[str]:
    """A cotangent by itself, and its sums along each axis."""
    shape = shape_of(scene.watched.names.get(name)) or ()
    axes = [-1, *range(len(shape) - 1)]
    return [
        name,
        *[f"{name}.sum({scene.dialect.along(axis, keep=True)})" for axis in axes if shape],
    ]


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
