"""Terms and factors that are missing: a table of what backwards are made of.

A row is tried at every expression, with every named array, along every axis, without compiling
anything. Terms get the weights with which the gradient comes out right, singly and in pairs: the
two sums of a normalisation are found together.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, ATOM, MUL, as_part
from chainrule.verify.repair.lab import Lab
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.target import GOOD
from chainrule.verify.repair.watch import shape_of
from chainrule.verify.repair.weigh import Scalar, coefficient, factors, scalars
from chainrule.verify.subject import Array

_SUMS = (
    "{e}.sum({ax})",
    "{a} * ({e} * {a}).sum({ax})",
    "({e} * {a}).sum({ax})",
    "{a} * {e}.sum({ax})",
)
"""Terms of softmax and of normalisations, along an axis."""
_TERMS = ("{a}", "{e} * {a}", "{e} * {a} ** 2")
_FACTORS = (
    "{e} * {a}",
    "{e} / {a}",
    "{e} * (1 - {a})",
    "{e} * (1 + {a})",
    "{e} * (1 - {a} ** 2)",
    "{e} * {a} * (1 - {a})",
    "{e} * ({a} > 0)",
    "{e} * {a} ** 2",
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
_SHAPES = (
    "{e} ** 2",
    "{e} ** 3",
    "{e} ** 0.5",
    "1 / {e}",
    "1 - {e}",
    "1 + {e}",
    "1 - {e} ** 2",
    "{e} * (1 - {e})",
    "abs({e})",
    "{e} > 0",
)
"""What it is made of something else by."""
_NODES = 24


@dataclass(frozen=True, eq=False)
class _Term:
    """A term that could be missing from an expression, with its effect on the gradients."""

    text: str
    effect: dict[int, Array]
    share: float
    """A sum with weight -1/n is a mean: n, or 1 where there is no mean to write."""
    cost: float


def missing_terms(lab: Lab) -> Iterator[Edit]:
    """Edits that add one or two terms to an expression."""
    scene, numbers = lab.scene, scalars(lab.scene)
    for node in _places(lab):
        terms = list(_terms(lab, node))
        found = False
        for t in terms:
            for (w,) in lab.fits([t.effect]):
                for edit in _with_terms(scene, node, [(t, w)], numbers, t.cost):
                    found = True
                    yield edit
        if found:
            continue
        for a, b in itertools.combinations(terms, 2):
            for w in lab.fits([a.effect, b.effect]):
                if min(map(abs, w)) > 1e-6:
                    pairs = list(zip((a, b), w, strict=True))
                    yield from _with_terms(scene, node, pairs, numbers, a.cost + 0.4)
        for t in terms:
            yield from _scaled_with(lab, node, t, numbers)


def _scaled_with(lab: Lab, node: ast.expr, term: _Term, numbers: list[Scalar]) -> Iterator[Edit]:
    """Edits that add a term and scale the sum: a softmax without its sum and its factor."""
    for scale, weight in lab.fits([lab.scales[node], term.effect]):
        if abs(scale) < 1e-6 or abs(1 + scale) < 1e-6:
            continue
        here = as_part(lab.scene.draft, node, ADD)
        for text, cost in list(_written(term, weight / (1 + scale), numbers))[:3]:
            for factor, more in list(factors(abs(1 + scale), numbers))[:4]:
                sign = "-" if scale < -1 else ""
                whole = f"{sign}({here} {text}) {factor}"
                total = term.cost + 0.4 + cost + more
                yield lab.scene.put(node, whole, "missing_term", total)


def _places(lab: Lab) -> list[ast.expr]:
    """Expressions that matter and are arrays, whole ones first."""
    scene = lab.scene
    nodes = [n for n in lab.scales if scene.is_array(n) and scene.shape(n)]
    return sorted(nodes, key=lambda n: n not in scene.roots)[:_NODES]


def _terms(lab: Lab, node: ast.expr) -> Iterator[_Term]:
    scene, here = lab.scene, as_part(lab.scene.draft, node, MUL)
    atom = as_part(lab.scene.draft, node, ATOM)
    shape = scene.shape(node) or ()
    partners = _partners(scene, shape)
    for row in _SUMS:
        for name in partners if "{a}" in row else [""]:
            for axes in _axes(shape):
                along = scene.along(axes, True)
                change = _adding(row.format(e="e", a="a", ax=along), scene.arrays.get(name))
                if (effect := lab.effect(node, change)) is not None:
                    text = row.format(e=atom if "{e}." in row else here, a=name, ax=along)
                    yield _Term(text, effect, _count(shape, axes), 1.2)
    for row in _TERMS:
        for name in scene.arrays if row == "{a}" else partners:
            change = _adding(row.format(e="e", a="a"), scene.arrays[name])
            if name != here and (effect := lab.effect(node, change)) is not None:
                yield _Term(row.format(e=here, a=name), effect, 1.0, 1.5)


def _with_terms(
    scene: Scene,
    node: ast.expr,
    terms: list[tuple[_Term, float]],
    numbers: list[Scalar],
    cost: float,
) -> Iterator[Edit]:
    written = [list(_written(t, w, numbers))[:6] for t, w in terms]
    for choice in itertools.product(*written):
        text = " ".join([as_part(scene.draft, node, ADD), *[c[0] for c in choice]])
        more = sum([c[1] for c in choice])
        yield scene.put(node, text, "missing_term", cost + more)


def _written(term: _Term, weight: float, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    if term.share > 1 and abs(abs(weight) * term.share - 1) < 1e-5:
        mean = term.text.replace(".sum(", ".mean(")
        yield from coefficient(mean, 1.0 if weight > 0 else -1.0, numbers)
        return
    yield from coefficient(term.text, weight, numbers)


def other_forms(lab: Lab) -> Iterator[Edit]:
    """Edits that multiply an expression by a named array, or take a function of it."""
    scene = lab.scene
    for node in _places(lab):
        here, e = scene.draft.src(node), as_part(scene.draft, node, MUL)
        shape = scene.shape(node) or ()
        for row in _SHAPES:
            if _helps(lab, node, _becoming(row.format(e="e"), None)):
                text = row.format(e=as_part(scene.draft, node, ATOM))
                yield scene.put(node, text, "wrong_value", 1.3)
        for name in [n for n in scene.arrays if n != here]:
            if not _meets(shape, shape_of(scene.arrays[name]) or ()):
                continue
            code = "ignores_cotangent" if name in scene.cotangents else "wrong_value"
            for row in _FACTORS:
                if _helps(lab, node, _becoming(row.format(e="e", a="a"), scene.arrays[name])):
                    bound = as_part(scene.draft, node, ATOM) if ".T" in row else e
                    yield scene.put(node, row.format(e=bound, a=name), code, 1.4)


def _helps(lab: Lab, node: ast.expr, change: Callable[[Any], Any]) -> bool:
    """Whether a change makes a wrong gradient right, and none that is right wrong."""
    errors = lab.target.errors(lab.run({lab.scene.draft.index[node]: change}))
    better = any(errors[i] <= GOOD for i in lab.wrong)
    return better and all(e <= GOOD for i, e in errors.items() if i not in lab.wrong)


# Rows as functions.


@cache
def _compiled(text: str) -> Callable[..., Any]:
    return eval(f"lambda e, a: {text}")  # Only rows of the tables above come here.


def _adding(text: str, a: Any) -> Callable[[Any], Any]:
    function = _compiled(text)
    return lambda e: e + function(e, a)


def _becoming(text: str, a: Any) -> Callable[[Any], Any]:
    function = _compiled(text)
    return lambda e: function(e, a)


def _partners(scene: Scene, shape: Shape) -> list[str]:
    return [k for k, v in scene.arrays.items() if (shape_of(v) or ()) == shape]


def _meets(a: Shape, b: Shape) -> bool:
    """Whether two shapes broadcast, or multiply as matrices."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return len(a) == len(b) == 2 or all(m == n or 1 in (m, n) for m, n in pairs)


def _axes(shape: Shape) -> list[int | tuple[int, ...] | None]:
    ndim = len(shape)
    one: list[int | tuple[int, ...] | None] = [-1, *range(ndim - 1)]
    most = list(itertools.combinations(range(ndim), ndim - 1)) if ndim > 2 else []
    return [*one, *most, *([tuple(range(ndim))] if ndim > 1 else [])]


def _count(shape: Shape, axes: int | tuple[int, ...] | None) -> float:
    n = 1
    for i in (axes,) if isinstance(axes, int) else axes or range(len(shape)):
        n *= shape[i]
    return float(n)
