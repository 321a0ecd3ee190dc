"""Terms and factors that are missing: a table of what backwards are made of.

How the gradients depend on every element of an expression is measured once (`Lab.response`). Then
each row of the table, with every named array, along every axis, is a product of small matrices.
Terms get the weights with which the gradient comes out right, singly and in pairs: the two sums of
a normalisation are found together.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, ATOM, MUL, as_part, part
from chainrule.verify.repair.lab import Effect, Lab, Response, Values
from chainrule.verify.repair.numbers import Scalar, coefficient, factors, scalars
from chainrule.verify.repair.pool import named
from chainrule.verify.repair.scene import VALUE, Scene, Shape
from chainrule.verify.repair.synthesis import instead
from chainrule.verify.repair.watch import plain
from chainrule.verify.repair.weigh import early
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
)
"""What it is a function of."""
_CALLS = ("exp", "log", "sqrt", "tanh")
_NORMED = ("{e} / {e}.sum({ax})", "{e} / {e}.mean({ax})")
"""What it is divided by, along an axis."""
_NODES = 48


@dataclass(frozen=True, eq=False)
class _Term:
    """A term that could be missing from an expression, with its effect on the gradients."""

    text: str
    form: str
    """The same with `VALUE` for what it is added to."""
    effect: Effect
    share: float
    """A sum with weight -1/n is a mean: n, or 1 where there is no mean to write."""
    cost: float


def missing(lab: Lab) -> Iterator[list[Edit]]:
    """Edits that add terms to an expression, multiply it, or put another one in its place: those of
    one expression after those of another."""
    there = lab.elsewhere
    numbers = scalars(lab.scene, None if there is None else there.scene)
    for node in _places(lab):
        if lab.problem.over:
            return
        if (response := lab.response(node)) is not None and lab.mendable(response):
            yield list(_of_node(lab, response, numbers))


def _of_node(lab: Lab, response: Response, numbers: list[Scalar]) -> Iterator[Edit]:
    if np.any(response.value):
        yield from _terms_added(lab, response, numbers)
        yield from _other_values(lab, response)
    yield from instead(lab, response, numbers)


def _places(lab: Lab) -> list[ast.expr]:
    """Expressions that matter and are arrays: first those on which all depends that is wrong, whole
    ones before their parts."""
    scene = lab.scene
    zeros = [n for n in scene.expressions if n not in lab.scales and _is_zero(scene, n)]
    nodes = [n for n in [*zeros, *lab.scales] if scene.is_array(n) and scene.shape(n)]
    nodes = [n for n in nodes if scene.draft.span(n) not in scene.names_returned]
    wrong = set(lab.residuals)

    def unlikely(node: ast.expr) -> tuple[bool, bool]:
        effect = lab.scales.get(node)
        return effect is not None and set(effect) < wrong, node not in scene.roots

    return sorted(nodes, key=unlikely)[:_NODES]


def _is_zero(scene: Scene, node: ast.expr) -> bool:
    """Whether an array has only zeros, so that no multiple of it matters."""
    value = plain(scene.value(node))
    return value is not None and value.dtype.kind == "f" and not np.any(value)


# Terms.


def _terms_added(lab: Lab, response: Response, numbers: list[Scalar]) -> Iterator[Edit]:
    terms = list(_terms(lab.scene, response))
    one, two = lab.likely([t.effect for t in terms])
    for k in one:
        for w in lab.fits([terms[k].effect]):
            yield from _with_terms(lab, response.node, [terms[k]], w, numbers, terms[k].cost)
    if one:
        return
    for i, k in two:
        a, b = terms[i], terms[k]
        for w in lab.fits([a.effect, b.effect]):
            if min(map(abs, w)) > 1e-6:
                yield from _with_terms(lab, response.node, [a, b], w, numbers, a.cost + 0.4)
    own = response.effect(response.value)
    for k, _ in lab.likely([*[t.effect for t in terms], own])[1]:
        yield from _scaled_with(lab, response.node, terms[k], own, numbers)


def _terms(scene: Scene, response: Response) -> Iterator[_Term]:
    node, e = response.node, response.value
    here, atom = as_part(scene.draft, node, MUL), as_part(scene.draft, node, ATOM)
    arrays = named(scene, node)
    partners = [k for k, v in arrays.items() if v.shape == e.shape]
    arrays |= _products(arrays, partners)
    for row in _SUMS:
        for name in [k for k, v in arrays.items() if v.shape == e.shape] if "{a}" in row else [""]:
            for axes in _axes(e.shape):
                value = _row(row.format(e="e", a="a", ax=f"axis={axes}, keepdims=True"))
                along = scene.along(axes, True)
                text = row.format(e=atom if "{e}." in row else here, a=name, ax=along)
                form = row.format(e=VALUE, a=name, ax=along)
                effect = response.effect(_spread(value(e, arrays.get(name)), e.shape))
                yield _Term(text, form, effect, _count(e.shape, axes), 1.2)
    for row in _TERMS:
        for name in arrays if row == "{a}" else partners:
            value = _row(row.format(e="e", a="a"))(e, arrays[name])
            if name != here and _fills(value.shape, e.shape):
                effect = response.effect(_spread(value, e.shape))
                form = row.format(e=VALUE, a=name)
                yield _Term(row.format(e=here, a=name), form, effect, 1.0, 1.5)


def _products(arrays: dict[str, Array], partners: list[str]) -> dict[str, Array]:
    """Named arrays times smaller ones that broadcast, or divided by them: what was normalised, and
    is not kept."""
    found = dict[str, Array]()
    for a, b in itertools.product(partners, arrays):
        if arrays[b].shape != arrays[a].shape and _fills(arrays[b].shape, arrays[a].shape):
            found[f"({a} * {b})"] = arrays[a] * arrays[b]
            if np.all(arrays[b] != 0):
                found[f"({a} / {b})"] = arrays[a] / arrays[b]
    return found


def _with_terms(
    lab: Lab,
    node: ast.expr,
    terms: list[_Term],
    here: Sequence[float],
    numbers: list[Scalar],
    cost: float,
) -> Iterator[Edit]:
    weights = lab.weights(node, [t.form for t in terms], here)
    written = [list(_written(*tw, numbers))[:6] for tw in zip(terms, weights, strict=True)]
    for choice in itertools.product(*written):
        text = " ".join([as_part(lab.scene.draft, node, ADD), *[c[0] for c in choice]])
        yield lab.scene.put(node, text, "missing_term", cost + sum([c[1] for c in choice]))


def _scaled_with(
    lab: Lab, node: ast.expr, term: _Term, own: Effect, numbers: list[Scalar]
) -> Iterator[Edit]:
    """Edits that add a term and scale the sum: a softmax without its sum and its factor."""
    here = as_part(lab.scene.draft, node, ADD)
    for weight, scale in lab.fits([term.effect, own]):
        if abs(1 + scale) < 1e-6:
            for text, cost in _written(term, (weight,), numbers):
                whole = text[2:] if text[0] == "+" else f"-{part(text[2:], MUL)}"
                yield lab.scene.put(node, whole, "wrong_value", term.cost + cost)
            continue
        if abs(scale) < 1e-6:
            continue
        for text, cost in list(_written(term, (weight / (1 + scale),), numbers))[:3]:
            for factor, more in factors((abs(1 + scale),), numbers)[:4]:
                sign = "-" if scale < -1 else ""
                total = term.cost + 0.4 + cost + more
                whole = f"{sign}({here} {text}) {factor}"
                yield lab.scene.put(node, whole, "missing_term", total)


def _written(term: _Term, weight: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    if term.share > 1 and abs(abs(weight[0]) * term.share - 1) < 1e-5:
        mean = term.text.replace(".sum(", ".mean(")
        yield from coefficient(mean, (1.0,) if weight[0] > 0 else (-1.0,), numbers)
        return
    yield from coefficient(term.text, weight, numbers)


# Other values.


def _other_values(lab: Lab, response: Response) -> Iterator[Edit]:
    """Edits that multiply an expression by a named array, or take a function of it."""
    scene, node = lab.scene, response.node
    here, atom = as_part(scene.draft, node, MUL), as_part(scene.draft, node, ATOM)
    for row in _FUNCTIONS:
        if _answers(lab, response, row, None, ""):
            far = 0.6 if row.startswith("abs") else 0.0  # A minus is meant, more likely.
            yield scene.put(node, row.format(e=atom), "wrong_value", 1.3 + far)
    module = scene.module("torch") if scene.torch else scene.module("numpy", "chainrule")
    for name in _CALLS if module is not None else ():
        with np.errstate(all="ignore"):
            value = getattr(np, name)(response.value)
        if lab.answers(response, value):
            yield scene.put(node, f"{module}.{name}({scene.draft.src(node)})", "wrong_value", 1.4)
    for row, axes in itertools.product(_NORMED, _axes(response.value.shape)):
        if _answers(lab, response, row.format(e="{e}", ax=f"axis={axes}, keepdims=True"), None, ""):
            text = row.format(e=atom, ax=scene.along(axes, True))
            yield scene.put(node, text, "factor", 1.4)
    for name, a in named(scene, node).items():
        if name == scene.draft.src(node):
            continue
        code = "ignores_cotangent" if name in scene.cotangents else "wrong_value"
        for row in _FACTORS:
            if _answers(lab, response, row, a, name):
                text = row.format(e=atom if ".T" in row else here, a=name)
                named_ = "region" if ">" in row else code
                yield scene.put(node, text, named_, 1.2 + early(scene, node))


def _answers(lab: Lab, response: Response, row: str, a: Array | None, name: str) -> bool:
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(_row(row.format(e="e", a="a"))(response.value, a))
    except (ValueError, TypeError):
        return False
    if value.shape != response.value.shape and a is not None:
        function = _row(row.format(e="e", a="a"))
        native = lab.scene.arrays_at(response.node)[name]
        return a.size > response.value.size and lab.helps(
            response.node, lambda e: function(e, native)
        )
    return lab.answers(response, value)


# Rows as functions of arrays.


@cache
def _row(text: str) -> Callable[..., Any]:
    return eval(f"lambda e, a: {text}")  # Only rows of the tables above come here.


def _spread(value: Array, shape: Shape) -> Array:
    return np.broadcast_to(value, shape)


def _fills(a: Shape, shape: Shape) -> bool:
    """Whether an array of shape a broadcasts to `shape`."""
    pairs = zip(reversed(a), reversed(shape), strict=False)
    return len(a) <= len(shape) and all(m in (1, n) for m, n in pairs)


def _axes(shape: Shape) -> list[int | tuple[int, ...]]:
    ndim = len(shape)
    one: list[int | tuple[int, ...]] = [-1, *range(ndim - 1)]
    most = list(itertools.combinations(range(ndim), ndim - 1)) if ndim > 2 else []
    return [*one, *most, *([tuple(range(ndim))] if ndim > 1 else [])]


def _count(shape: Shape, axes: int | tuple[int, ...]) -> float:
    n = 1
    for i in (axes,) if isinstance(axes, int) else axes:
        n *= shape[i]
    return float(n)
