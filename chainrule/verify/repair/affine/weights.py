"""Signs, factors and terms too much: the weight that an expression should have.

The weight itself is solved for (`lab.py`), at two points of different sizes where there are two.
Which number of the code it is (a size, its root, a constant) is looked up (`numbers.py`).
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from chainrule.verify.repair.budget import CHOICES
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ADD, MUL, UNARY, as_operand, called, removal
from chainrule.verify.repair.rule_costs import EARLY, OF_NUMBERS, TOGETHER, WORKED_OUT
from chainrule.verify.repair.values.lab import NEAR, Lab, Values
from chainrule.verify.repair.values.numbers import Scalar, factors, scalars, spellings, times
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import LOOSE, SAME

_IN_LOOPS = (-1.0, 2.0, 0.5)
_MOVING = re.compile(
    r"^(reshape|view|flatten|ravel|transpose|swapaxes|permute|move(dim|axis)|expand|broadcast_to|"
    r"repeat|tile|take(_along_axis)?|gather|scatter(_add)?_?|index_(add_?|select)|concat(enate)?|"
    r"cat|stack|pad|flip|roll|(un)?squeeze)$"
)
"""Functions that move elements and compute nothing: no factor was forgotten there."""


def weights(lab: Lab) -> Iterator[Edit]:
    """Edits that give each expression the weight with which a wrong gradient comes out right."""
    there = lab.at_other_sizes
    numbers = scalars(lab.scene, None if there is None else there.scene)
    counts = [s for s in numbers if s.text not in lab.scene.cotangents]
    for node, effect in lab.scales.items():
        for (more,) in lab.fits([effect]):
            for weight in _weights(there, node, 1 + more):
                yield from with_weight(lab.scene, node, weight, _values(lab, node), numbers)
                yield from _other_divisors(lab, node, weight, numbers)
        if _values(lab, node):
            for weight in _as_divisor(lab, there, node):
                yield from with_weight(lab.scene, node, weight, _values(lab, node), counts)
        if lab.scene.watched.turns[lab.scene.draft.index[node]] > 1:
            for w in _IN_LOOPS:  # What is handed on from turn to turn is not affine.
                if lab.helps(node, lambda v, w=w: v * w):
                    yield from with_weight(lab.scene, node, (w,), _values(lab, node), numbers)
    yield from _of_parts(lab, numbers)


def _of_parts(lab: Lab, numbers: list[Scalar]) -> Iterator[Edit]:
    """One edit for values of which each gives other elements of a gradient: a factor for each."""
    for i, residual in lab.residuals.items():
        left, parts = np.abs(residual) > SAME * np.max(np.abs(residual)), dict[ast.expr, float]()
        for node in lab.scene.roots:
            part = _part(lab, node, i)
            if part is not None and np.any(left[part[0]]):
                parts[node] = part[1]
                left = left & ~part[0]
        if len(parts) > 1 and not np.any(left):
            each = list(_factors_of_parts(lab, parts, numbers))
            chosen = sorted(itertools.product(*each), key=lambda c: sum([e.cost for e in c]))
            yield from [_together(lab.scene, list(c)) for c in chosen[:CHOICES]]


def _factors_of_parts(
    lab: Lab, parts: dict[ast.expr, float], numbers: list[Scalar]
) -> Iterator[list[Edit]]:
    """The edits for each part, by what it must be at other sizes as well, if these tell."""
    there = lab.at_other_sizes
    effects = [] if there is None else [there.effect(n, lambda v: v + v) for n in parts]
    known = [e for e in effects if e is not None]
    tells = there is not None and all(len(r) > len(parts) for r in there.residuals.values())
    fits = there.fits(known) if there is not None and tells and len(known) == len(parts) else []
    others = [(1 + more,) for more in fits[0]] if fits else [()] * len(parts)
    for (node, here), other in zip(parts.items(), others, strict=True):
        given = numbers if other else [replace(s, value=s.value[:1]) for s in numbers]
        yield list(with_weight(lab.scene, node, (here, *other), (), given))


def _part(lab: Lab, node: ast.expr, i: int) -> tuple[Array, float] | None:
    """Which elements of a gradient come from a value, if not all of them do, and the weight with
    which they would be right; None if none is."""
    effect = lab.scales.get(node, {}).get(i)
    if effect is None or i not in lab.residuals or lab.target.expected[i].directions is not None:
        return None
    rows, residual = np.abs(effect) > SAME * np.max(np.abs(effect)), lab.residuals[i]
    if np.all(rows):
        return None
    more = float(effect[rows] @ residual[rows] / (effect[rows] @ effect[rows]))
    rest = np.linalg.norm(residual[rows] - more * effect[rows])
    near = abs(more) > SAME and rest <= LOOSE * np.linalg.norm(residual[rows])
    return (rows, 1 + more) if near else None


def _together(scene: Scene, edits: list[Edit]) -> Edit:
    """Edits of different places as one."""
    ordered = sorted(edits, key=lambda e: e.start)
    text, at = "", ordered[0].start
    for e in ordered:
        text += scene.draft.body[at : e.start] + e.text
        at = e.end
    cost, says = max(e.cost for e in edits), "; ".join([e.says for e in ordered])
    return Edit(ordered[0].start, at, text, "factor", cost + TOGETHER * (len(edits) - 1), says)


def _weights(there: Lab | None, node: ast.expr, here: float) -> list[Values]:
    """A weight, with what it must be at the other sizes."""
    if there is None or abs(abs(here) - 1) < NEAR or abs(here) < NEAR:
        return [(here,)]
    effect = there.effect(node, lambda v: v + v)
    others = [] if effect is None else there.fits([effect])
    return [(here, 1 + more) for (more,) in others if (1 + more) * here > 0] or [(here,)]


def _as_divisor(lab: Lab, there: Lab | None, node: ast.expr) -> Iterator[Values]:
    """Weights of a number by which something is divided, at one place or at several: a gradient is
    affine in what one divided by it is."""
    for here in _inverse(lab, node):
        others = [] if there is None else list(_inverse(there, node))
        yield from [(here, w) for w in others if w * here > 0] or [(here,)]


def _inverse(lab: Lab, node: ast.expr) -> Iterator[float]:
    effect = lab.effect(node, lambda v: v / 2)
    for (more,) in [] if effect is None else lab.fits([effect]):
        if abs(1 + more) > NEAR:
            yield 1 / (1 + more)


def _values(lab: Lab, node: ast.expr) -> Values:
    """A node's number, here and at the other sizes; empty if it is an array."""
    scenes = [lab.scene, *([] if lab.at_other_sizes is None else [lab.at_other_sizes.scene])]
    values = [s.value(node) for s in scenes]
    numbers = [float(v) for v in values if isinstance(v, int | float)]
    return tuple(numbers) if len(numbers) == len(values) else ()


def with_weight(
    scene: Scene, node: ast.expr, weight: Values, value: Values, numbers: list[Scalar]
) -> Iterator[Edit]:
    """Edits that give a node a weight."""
    cost = 1.0 + _depth(scene, node)
    if abs(weight[0] + 1) < NEAR:
        yield from _negations(scene, node, cost)
    elif abs(weight[0]) < NEAR:
        yield from _removals(scene, node)
    else:
        cost = OF_NUMBERS if value else cost + early_cost(scene, node)
        yield from _scalings(scene, node, weight, numbers, cost)
        yield from _respellings(scene, node, weight, value, numbers)


def _depth(scene: Scene, node: ast.expr) -> float:
    """How unlikely it is that a factor is missing here: 0 for a whole gradient, or a term; more
    for what is computed again from the forward."""
    away = 0.0 if scene.flows(node) else 0.3
    away += 0.4 * (isinstance(node, ast.Call) and _MOVING.match(called(node)) is not None)
    if node in scene.roots:
        return away
    parent = scene.draft.parents[node]
    term = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub)
    return away + (0.1 if term else 0.3)


def _negations(scene: Scene, node: ast.expr, cost: float) -> Iterator[Edit]:
    """The sign of an expression turned: of an operand, of a unary minus."""
    parent = scene.draft.parents[node]
    match parent:
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, right=right) if right is node:
            left_end, right_start = scene.draft.span(parent.left)[1], scene.draft.span(node)[0]
            sign, other = ("+", "-") if isinstance(op, ast.Add) else ("-", "+")
            at = scene.draft.body.index(sign, left_end, right_start)
            yield Edit(at, at + 1, other, "sign", 1.0, f"`{sign}` becomes `{other}`")
        case _:
            pass
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield scene.put(node, scene.draft.src(node.operand), "sign", 1.0)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left, right = (
            as_operand(scene.draft, node.left, MUL),
            as_operand(scene.draft, node.right, ADD),
        )
        yield scene.put(node, f"{right} - {left}", "sign", cost)
    elif not (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)):
        text = f"-{as_operand(scene.draft, node, MUL)}"
        yield scene.put(node, text, "sign", cost + 0.05)


def _removals(scene: Scene, node: ast.expr) -> Iterator[Edit]:
    match scene.draft.parents[node]:
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right) as parent:
            if right is node:
                yield scene.put(parent, scene.draft.src(left), "extra_term", 1.1)
            elif isinstance(op, ast.Add):
                yield scene.put(parent, scene.draft.src(right), "extra_term", 1.1)
            else:
                text = f"-{as_operand(scene.draft, right, UNARY)}"
                yield scene.put(parent, text, "extra_term", 1.1)
        case ast.AugAssign() as parent:
            yield removal(scene.draft, parent, "extra_term", 1.1)
        case _:
            return


def _respellings(
    scene: Scene, node: ast.expr, weight: Values, value: Values, numbers: list[Scalar]
) -> Iterator[Edit]:
    """Another number where a number stands, or where one divides."""
    if value:
        for text, extra in spellings(times(value, weight), numbers):
            base = 1.05 if isinstance(node, ast.Constant) else 0.7
            cost = base + extra + WORKED_OUT * _is_new(node, text, numbers)
            yield scene.put(node, text, "factor", cost)


def _is_new(node: ast.expr, text: str, numbers: list[Scalar]) -> bool:
    """Whether a number that nobody has written would take the place of a name."""
    constant = isinstance(node, ast.Constant)
    return not constant and "/" not in text and text not in {s.text for s in numbers}


def _other_divisors(
    lab: Lab, node: ast.expr, weight: Values, numbers: list[Scalar]
) -> Iterator[Edit]:
    """Another number where one divides: `/ d` to `/ sqrt(d)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and weight[0] > 0:
        divisor = _values(lab, node.right)
        if divisor:
            lacking = tuple([1 / w for w in weight])
            for text, extra in spellings(times(divisor, lacking), numbers):
                worked_out = WORKED_OUT * _is_new(node.right, text, numbers)
                yield lab.scene.put(node.right, text, "factor", 0.7 + extra + worked_out)


def _scalings(
    scene: Scene, node: ast.expr, weight: Values, numbers: list[Scalar], cost: float
) -> Iterator[Edit]:
    here = as_operand(scene.draft, node, MUL)
    sign = "-" if weight[0] < 0 else ""
    for text, extra in factors(tuple(map(abs, weight)), numbers):
        yield scene.put(node, f"{sign}{here} {text}", "factor", cost + extra)


def early_cost(scene: Scene, node: ast.expr) -> float:
    """How unlikely a factor is missing here, because the way goes on."""
    return EARLY * (1 - scene.draft.span(node)[0] / len(scene.draft.body))
