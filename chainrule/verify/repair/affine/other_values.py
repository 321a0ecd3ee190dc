"""Other values of an expression: times a named array, where one holds, or a function of itself.

What one iteration of a loop hands on cannot be solved for: there the loop runs with each of a few.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from chainrule.verify.repair.affine.weights import early_cost
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ATOM, MUL, as_operand
from chainrule.verify.repair.values.lab import Lab
from chainrule.verify.repair.values.loop_values import LoopValues, answers
from chainrule.verify.repair.values.numbers import bounds
from chainrule.verify.repair.values.response import Response
from chainrule.verify.repair.values.scene import Shape
from chainrule.verify.subject import Array

_FACTORS = (
    "{e} * {a}",
    "{e} / {a}",
    "{e} * (1 - {a})",
    "{e} * (1 + {a})",
    "{e} * (1 - {a} ** 2)",
    "{e} * {a} * (1 - {a})",
    "{e} * {a} ** 2",
    "{e} * {a} ** 3",
    "{e} / {a} ** 2",
    "{e} * {a}.sum()",
    "{e} @ {a}",
    "{a} @ {e}",
    "{e}.T @ {a}",
    "{a}.T @ {e}",
    "{e} @ {a}.T",
    "{a} @ {e}.T",
)
"""What an expression is multiplied by."""
_FUNCTIONS = (
    "{e} ** 2",
    "{e} ** 3",
    "{e} ** 0.5",
    "1 / {e}",
    "1 - {e}",
    "1 + {e}",
    "1 - {e} ** 2",
    "{e} * (1 - {e})",
    "abs({e})",
    "{e} + {e}.T",
)
"""What it is a function of."""
_MASKS = (
    "{e} * ({a} > {c})",
    "{e} * ({a} < {c})",
    "{e} * (abs({a}) < {c})",
    "{e} * (abs({a}) > {c})",
)
"""Which of its elements stay."""


def other_values(lab: Lab, response: Response, beside: LoopValues) -> Iterator[Edit]:
    """Edits that multiply an expression by a named array, or take a function of it."""
    scene, node = lab.scene, response.node
    atom = as_operand(scene.draft, node, ATOM)
    for row in _FUNCTIONS:
        if _answers(lab, response, beside, row):
            far = 0.6 if row.startswith("abs") else 0.0  # A minus is meant, more likely.
            code = "missing_term" if row.endswith(".T") else "wrong_value"
            yield scene.put(node, row.format(e=atom), code, 1.3 + far)
    summed = beside.with_sums(sorted(scene.cotangents), scene.dialect.along)
    yield from _products(lab, response, summed.with_axes)


def _products(lab: Lab, response: Response, beside: LoopValues) -> Iterator[Edit]:
    """The expression times, or divided by, a named array that makes the gradients right."""
    scene, node = lab.scene, response.node
    here, atom = (
        as_operand(scene.draft, node, MUL),
        as_operand(scene.draft, node, ATOM),
    )
    limits = bounds(scene)
    module = scene.dialect.library
    for name in [n for n in beside.names if n != scene.draft.src(node)]:
        code = "ignores_cotangent" if name in scene.cotangents else "wrong_value"
        for row in _FACTORS:
            if _answers(lab, response, beside, row, name):
                text = row.format(e=atom if ".T" in row else here, a=name)
                yield scene.put(node, text, code, 1.2 + early_cost(scene, node))
        signs = beside.each(_times_sign, name)
        if module is not None and signs is not None and answers(lab, response, signs):
            yield scene.put(node, f"{here} * {module}.sign({name})", "one_sided", 1.25)
        for row, c in itertools.product(_MASKS, limits) if beside.fills(name) else ():
            value = beside.each(row_of(row.replace("{c}", repr(limits[c]))), name)
            if value is not None and answers(lab, response, value):
                text = row.format(e=here, a=name, c=c)
                yield scene.put(node, text, "region", 1.2 + early_cost(scene, node))


def _times_sign(e: Array, a: Array) -> Array:
    return e * np.sign(a)


def _answers(lab: Lab, response: Response, beside: LoopValues, row: str, name: str = "") -> bool:
    f = row_of(row)
    if (value := beside.each(f, name)) is not None:
        return answers(lab, response, value)
    if len(response.values) > 1 or not name:
        return False
    native = lab.scene.arrays_at(response.node).get(name)
    larger = beside.arrays[0][name].size > response.flat.size
    return larger and native is not None and lab.helps(response.node, lambda e: f(e, native))


@cache
def row_of(row: str, axes: str = "") -> Callable[..., Any]:
    """A row as a function of an expression `e` and a named array `a`; `axes` are the arguments of
    its reduction. Only rows of the tables come here."""
    return eval(f"lambda e, a: {row.format(e='e', a='a', ax=axes)}")


def axes_of(shape: Shape) -> list[int | tuple[int, ...]]:
    """Axes, and sets of axes, along which one sums."""
    ndim = len(shape)
    one: list[int | tuple[int, ...]] = [-1, *range(ndim - 1)] if ndim else []
    most = list(itertools.combinations(range(ndim), ndim - 1)) if ndim > 2 else []
    return [*one, *most, *([tuple(range(ndim))] if ndim > 1 else [])]
