"""Terms of derivatives of the forward's statements, in the backward's names, with their values.

What `y = f(x, ...)` is differentiated to is known from its text (`code/slopes.py`). Whether a
backward lacks it, as it stands or times a cotangent within reach, is a question of numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from types import CodeType

import numpy as np

from chainrule.verify.repair.budget import SLOPES
from chainrule.verify.repair.code.dialect import said_by_forward
from chainrule.verify.repair.code.parentheses import MUL, operand
from chainrule.verify.repair.code.slopes import slopes
from chainrule.verify.repair.code.syntax import mentions
from chainrule.verify.repair.values.expression_pool import Term
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import Visit, plain
from chainrule.verify.subject import Array, extent

_COST = 0.3
"""What is a product of two names is so by itself: it comes first."""


def derived_terms(
    scene: Scene, node: ast.expr, visit: Visit, arrays: Mapping[str, Array]
) -> Iterator[Term]:
    """Derivatives, and their terms, that have the shape of a value, or get it by a cotangent:
    `arrays` are what has a name beside it."""
    shape = extent(visit[0])
    flowing = [k for k in arrays if _names(k) & scene.flowing]
    for text in _texts(scene):
        value = plain(scene.evaluated(node, _compiled(text), visit))
        if value is None or value.dtype.kind not in "fi" or not np.all(np.isfinite(value)):
            continue
        if value.shape == shape and np.any(value):
            yield Term(text, value.astype(np.float64), _COST, "missing_term")
        for name in flowing:
            with np.errstate(all="ignore"):
                made = _product(arrays[name], value)
            if made is not None and made.shape == shape and np.any(made):
                whole = f"{operand(name, MUL)} * {operand(text, MUL + 1)}"
                yield Term(whole, made, _COST + 0.05, "missing_term")


def _product(a: Array, b: Array) -> Array | None:
    try:
        return a * b
    except ValueError:
        return None


def _texts(scene: Scene) -> list[str]:
    """Derivatives by the forward's statements, and the terms of each."""
    if "derived" not in scene.pool:
        said = said_by_forward(scene.draft.source, scene.watched.names, _derivatives)
        every = [text for texts in said.values() for text in texts]
        scene.pool["derived"] = list(dict.fromkeys(every))[:SLOPES]
    return scene.pool["derived"]


def _derivatives(text: str) -> Iterator[tuple[str, str]]:
    for slope in slopes(text):
        yield from [(slope.of, term) for term in dict.fromkeys((*slope.terms, slope.whole))]


@cache
def _names(text: str) -> set[str]:
    return mentions(ast.parse(text, mode="eval"))


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<derivative>", "eval")
