"""Where no repair was found: the value that alone explains what is wrong, by the fewest numbers.

If some other value of an expression would make a wrong gradient right, the mistake may be there. Of
a whole gradient that is no news, since it can be anything. But what an expression adds to a few
elements, or in a few directions, would hardly explain a difference by chance.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from time import process_time

import numpy as np

from chainrule.verify.repair.lab import LARGEST, Lab
from chainrule.verify.repair.response import Effect, at_turn, is_in_span, moved
from chainrule.verify.repair.scene import Shape
from chainrule.verify.subject import Array

_SECONDS = 1.0
"""For looking at all expressions; the last ones of a text are looked at first."""
_NEWS = 0.75
"""An expression that can bring about more than this share of all differences explains nothing."""


def suspect(lab: Lab) -> ast.expr | None:
    """The expression of which another value would mend most, and that can bring about least."""
    found = list[tuple[int, float, ast.expr]]()
    stop = process_time() + _SECONDS
    for node in reversed(lab.scene.roots):
        if process_time() > stop:
            break
        if lab.scene.flows(node) and (columns := _columns(lab, node)) is not None:
            mended = [i for i, c in columns.items() if is_in_span(c, lab.residuals[i])]
            share = max([_freedom(columns[i]) for i in mended], default=1.0)
            if share < _NEWS:
                found.append((-len(mended), share, node))
    return min(found, key=lambda f: f[:2])[2] if found else None


def _freedom(columns: Array) -> float:
    """The share of all differences that columns span."""
    size = float(np.linalg.norm(columns, 2))
    return float(np.linalg.matrix_rank(columns, tol=1e-7 * size)) / columns.shape[0]


def _columns(lab: Lab, node: ast.expr) -> dict[int, Array] | None:
    """For each wrong input, what each element of a node's value adds, in each turn of a loop."""
    shapes = lab.scene.watched.shapes.get(lab.scene.draft.index[node], [])
    if any(s is None for s in shapes) or not 0 < sum(_size(s) for s in shapes) <= LARGEST:
        return None
    found: dict[int, list[Array]] = {i: [] for i in lab.residuals}
    for effect in _effects(lab, node, [s or () for s in shapes]):
        for i, columns in found.items():
            columns.append(effect.get(i, np.zeros_like(lab.residuals[i])))
    return {i: np.stack(c, axis=1) for i, c in found.items() if np.any(c)}


def _effects(lab: Lab, node: ast.expr, shapes: list[Shape]) -> Iterator[Effect]:
    for turn, shape in enumerate(shapes):
        for k in range(_size(shape)):
            step = np.zeros(_size(shape))
            step[k] = 1.0
            yield lab.effect(node, at_turn(turn, moved(step, shape))) or {}


def _size(shape: Shape | None) -> int:
    return math.prod(shape or ())
