"""Terms and factors that are missing: a table of what backwards are made of.

How the gradients depend on every element of an expression is measured once (`Lab.response`). Then
each row of the table, with every named array, along every axis, is a product of small matrices.
Terms get the weights with which the gradient comes out right, singly and in pairs: the two sums of
a normalisation are found together.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from chainrule.verify.repair.affine.new_gradients import is_there, replacements, summands_around
from chainrule.verify.repair.affine.other_values import axes_of, other_values, row_of
from chainrule.verify.repair.affine.weights import with_weight
from chainrule.verify.repair.budget import NODES, PAIRS, SHARE_OF_TERMS
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ADD, ATOM, MUL, as_operand
from chainrule.verify.repair.expected.expected_values import Doubt, doubt_at
from chainrule.verify.repair.values.lab import Lab, Values
from chainrule.verify.repair.values.loop_values import LoopValues, mendable, response_of
from chainrule.verify.repair.values.numbers import Scalar, coefficient, scalars
from chainrule.verify.repair.values.response import Effect, Response
from chainrule.verify.repair.values.scene import VALUE, Scene, Shape
from chainrule.verify.repair.values.watch import plain

_SUMS = (
    "{e}.sum({ax})",
    "{a} * ({e} * {a}).sum({ax})",
    "({e} * {a}).sum({ax})",
    "{a} * {e}.sum({ax})",
)
"""Terms of softmax and of normalisations, along an axis."""
_TERMS = ("{a}", "{e} * {a}", "{e} * {a} ** 2")


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


def missing_terms(lab: Lab, doubts: Sequence[Doubt]) -> Iterator[list[Edit]]:
    """Edits that add terms to an expression, multiply it, or put another one in its place: those of
    one expression after those of another. First come expressions of which one value would put right
    all that is wrong."""
    there = lab.at_other_sizes
    numbers = scalars(lab.scene, None if there is None else there.scene)
    now, later = process_time(), list[Response]()
    until = now + SHARE_OF_TERMS * (lab.problem.stop - now)
    for node in _places(lab, doubts):
        if lab.problem.over or process_time() > until:
            return
        if (response := response_of(lab, node)) is not None and (mended := mendable(lab, response)):
            if mended >= set(lab.residuals):
                yield list(_of_node(lab, response, numbers))
            else:
                later.append(response)
    for response in later:
        if lab.problem.over or process_time() > until:
            return
        yield list(_of_node(lab, response, numbers))


def _of_node(lab: Lab, response: Response, numbers: list[Scalar]) -> Iterator[Edit]:
    beside = LoopValues.of(lab.scene, response)
    if np.any(response.flat):
        yield from _additions(lab, response, beside, numbers)
        yield from other_values(lab, response, beside)
    yield from replacements(lab, response, beside, numbers)


def _places(lab: Lab, doubts: Sequence[Doubt]) -> list[ast.expr]:
    """Expressions that matter and are arrays: first those on which all depends that is wrong, where
    the mistake can well be, whole ones before their parts."""
    scene = lab.scene
    zeros = [n for n in scene.expressions if n not in lab.scales and _is_zero(scene, n)]
    nodes = [n for n in [*zeros, *lab.scales] if _varies(scene, n)]
    nodes = [n for n in nodes if scene.draft.span(n) not in scene.only_returned]
    wrong = set(lab.residuals)

    def unlikely(node: ast.expr) -> tuple[bool, bool, bool]:
        effect = lab.scales.get(node)
        doubt = doubt_at(doubts, *scene.draft.span(node))
        return effect is not None and set(effect) < wrong, doubt > 0, node not in scene.roots

    return sorted(nodes, key=unlikely)[:NODES]


def _varies(scene: Scene, node: ast.expr) -> bool:
    """Whether a value has several elements, or may be another number in each turn of a loop."""
    in_loop = scene.watched.turns[scene.draft.index[node]] > 1
    return bool(scene.shape(node)) or (in_loop and isinstance(scene.value(node), float))


def _is_zero(scene: Scene, node: ast.expr) -> bool:
    """Whether an array has only zeros, so that no multiple of it matters."""
    value = plain(scene.value(node))
    return value is not None and value.dtype.kind == "f" and not np.any(value)


# Terms.


def _additions(
    lab: Lab, response: Response, beside: LoopValues, numbers: list[Scalar]
) -> Iterator[Edit]:
    """One missing term, or two, whose effects add up to what is wrong."""
    terms = list(_terms(lab.scene, response, beside.with_products))
    one, two = lab.likely([t.effect for t in terms])
    for k in one:
        for w in lab.fits([terms[k].effect]):
            yield from _with_terms(lab, response.node, [terms[k]], w, numbers, terms[k].cost)
    if one:
        return
    two = sorted(two, key=lambda pair: sum([terms[i].cost for i in pair]))
    for i, k in two[:PAIRS]:
        if lab.problem.over:
            return
        a, b = terms[i], terms[k]
        for w in lab.fits([a.effect, b.effect]):
            if min(map(abs, w)) > 1e-6:
                yield from _with_terms(lab, response.node, [a, b], w, numbers, a.cost + 0.4)
    if len(response.values) > 1:  # Else `weights.py` has seen to it.
        for (more,) in lab.fits([response.effect(response.flat)]):
            yield from with_weight(lab.scene, response.node, (1 + more,), (), numbers)


def _terms(scene: Scene, response: Response, beside: LoopValues) -> Iterator[_Term]:
    """Terms that could be missing, each with its effect on the gradients."""
    node, shape = response.node, beside.shape
    here, atom = (
        as_operand(scene.draft, node, MUL),
        as_operand(scene.draft, node, ATOM),
    )
    for row in _SUMS:
        for name in beside.partners if "{a}" in row else [""]:
            for axes in axes_of(shape):
                value = beside.each(row_of(row, f"axis={axes}, keepdims=True"), name)
                if value is not None:
                    along = scene.dialect.along(axes, True)
                    text = row.format(e=atom if "{e}." in row else here, a=name, ax=along)
                    form = row.format(e=VALUE, a=name, ax=along)
                    yield _Term(text, form, response.effect(value), _count(shape, axes), 1.2)
    held = summands_around(scene, node) if len(response.values) == 1 else []
    for row in _TERMS:
        for name in beside.names if row == "{a}" else beside.partners:
            value = beside.each(row_of(row), name)
            if name != here and value is not None and not is_there(value, held):
                form = row.format(e=VALUE, a=name)
                text = row.format(e=here, a=name)
                yield _Term(text, form, response.effect(value), 1.0, 1.5)


def _with_terms(
    lab: Lab,
    node: ast.expr,
    terms: list[_Term],
    here: Sequence[float],
    numbers: list[Scalar],
    cost: float,
) -> Iterator[Edit]:
    weights = lab.weights(node, [t.form for t in terms], here)
    written = [list(_texts(*tw, numbers))[:6] for tw in zip(terms, weights, strict=True)]
    for choice in itertools.product(*written):
        text = " ".join([as_operand(lab.scene.draft, node, ADD), *[c[0] for c in choice]])
        yield lab.scene.put(node, text, "missing_term", cost + sum([c[1] for c in choice]))


def _texts(term: _Term, weight: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    if term.share > 1 and abs(abs(weight[0]) * term.share - 1) < 1e-5:
        mean = term.text.replace(".sum(", ".mean(")
        yield from coefficient(mean, (1.0,) if weight[0] > 0 else (-1.0,), numbers)
        return
    yield from coefficient(term.text, weight, numbers)


def _count(shape: Shape, axes: int | tuple[int, ...]) -> float:
    n = 1
    for i in (axes,) if isinstance(axes, int) else axes:
        n *= shape[i]
    return float(n)
