"""Sums and means: those that are missing, those too much, and one for the other."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ATOM, MUL, as_part, called
from chainrule.verify.repair.rules.along import REDUCTIONS, calls
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.watch import shape_of


def sum_or_mean(scene: Scene) -> Iterator[Edit]:
    """`mean` for `sum` and the other way round, and what else is taken for another."""
    other = {"sum": "mean", "mean": "sum", "max": "sum", "min": "max", "var": "std", "std": "var"}
    by_number = ("sum", "mean")
    for node, _ in calls(scene):
        if (name := called(node)) in other and isinstance(node.func, ast.Attribute):
            end = scene.draft.span(node.func)[1]
            says = f"`{name}` becomes `{other[name]}`"
            code = "factor" if name in by_number else "wrong_value"
            yield Edit(end - len(name), end, other[name], code, 0.9, says)


def reduced(scene: Scene) -> Iterator[Edit]:
    """A sum at the end of a gradient that has more axes than its input, or longer ones."""
    for node in scene.roots:
        here = scene.shape(node) or ()
        for wanted in set(scene.shapes) - {here}:
            for axes, keep in _sums(here, wanted):
                axis = axes[0] if len(axes) == 1 else axes
                text = f"{as_part(scene.draft, node, ATOM)}.sum({scene.dialect.along(axis, keep)})"
                again = isinstance(node, ast.Call) and called(node) == "sum"
                cost = 1.0 + 0.2 * len(axes) + 0.4 * again  # Its own axis is wrong, more likely.
                yield scene.put(node, text, "not_summed", cost)
            if here == () or math.prod(here) == math.prod(wanted):
                yield from _reshaped(scene, node, wanted)


def summed_within(scene: Scene) -> Iterator[Edit]:
    """A sum, or a mean, that is missing within a term: `y * g` to `y * g.sum(axis=-1,
    keepdims=True)`."""
    for node in scene.expressions:
        parent, here = scene.draft.parents[node], scene.shape(node)
        factor = isinstance(parent, ast.BinOp | ast.AugAssign) or node in scene.roots
        if not here or not factor or not scene.flows(node) or not scene.is_array(node):
            continue
        product = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult)
        code = "not_summed" if product else "missing_term"
        for axis in [-1, *range(len(here) - 1)]:
            for name in ("sum", "mean"):
                call = (
                    f"{as_part(scene.draft, node, ATOM)}.{name}({scene.dialect.along(axis, True)})"
                )
                yield scene.put(node, call, code, 1.45 + 0.1 * (name == "mean"))


def total_of_the_other(scene: Scene) -> Iterator[Edit]:
    """A term that lacks the total of the other one: `p - t` to `p * t.sum(axis=-1, keepdims=True) -
    t`, which is the same where that is one."""
    for node in scene.expressions:
        match scene.draft.parents[node], scene.shape(node):
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right), here if here:
                other = right if node is left else left
                if scene.shape(other) == here:
                    for axis in [-1, *range(len(here) - 1)]:
                        total = as_part(scene.draft, other, ATOM)
                        total = f"{total}.sum({scene.dialect.along(axis, True)})"
                        text = f"{as_part(scene.draft, node, MUL)} * {total}"
                        yield scene.put(node, text, "missing_term", 1.4)
            case _:
                continue


def one_of_all(scene: Scene) -> Iterator[Edit]:
    """One element along an axis in place of the sum along it: `g[0]` to `g.sum(axis=0)`."""
    for node in scene.expressions:
        if not isinstance(node, ast.Subscript) or not scene.flows(node.value):
            continue
        *before, last = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not all(map(_is_all, before)) or not isinstance(last, ast.Constant | ast.UnaryOp):
            continue
        whole, here = scene.shape(node.value) or (), scene.shape(node)
        if here is not None and len(whole) == len(here) + 1:
            axis = -1 if "..." in map(ast.unparse, before) else len(before)
            text = as_part(scene.draft, node.value, ATOM)
            text = f"{text}.sum({scene.dialect.along(axis, False)})"
            yield scene.put(node, text, "not_summed", 1.3)


def _is_all(index: ast.expr) -> bool:
    """Whether an index leaves an axis as it is: `:`, or `...` for several."""
    return ast.unparse(index) in (":", "...")


def _sums(here: Shape, wanted: Shape) -> Iterator[tuple[tuple[int, ...], bool]]:
    for n in range(1, len(here) + 1):
        for axes in itertools.combinations(range(len(here)), n):
            if tuple([s for i, s in enumerate(here) if i not in axes]) == wanted:
                yield axes, False
            if tuple([1 if i in axes else s for i, s in enumerate(here)]) == wanted:
                yield axes, True


def _reshaped(scene: Scene, node: ast.expr, wanted: Shape) -> Iterator[Edit]:
    for name, value in scene.arrays_at(node).items():
        if shape_of(value) == wanted and name != scene.draft.src(node):
            text = f"{as_part(scene.draft, node, ATOM)}.reshape({name}.shape)"
            yield scene.put(node, text, "wrong_shape", 1.4)


def not_reduced(scene: Scene) -> Iterator[Edit]:
    """A reduction too much."""
    for node, operand in calls(scene):
        if called(node) in REDUCTIONS:
            here = scene.draft.src(operand)
            yield scene.put(node, here, "wrong_axis", 1.8)
            given = here in scene.draft.parameters
            if given and scene.shape(operand) in scene.cotangent_shapes and not scene.shape(node):
                for text in (here, f"{here}[..., None]"):  # Each row has its own.
                    yield scene.put(node, text, "ignores_cotangent", 1.3)
