"""Signs, factors and terms too much: the weight that an expression should have, put in words.

The weight itself is solved for (`lab.py`). Which number of the code it is (a size, its root, a
constant) is then a matter of what is within reach.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, MUL, UNARY, as_part, part, removed
from chainrule.verify.repair.lab import Lab
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.watch import plain

_NEAR = 2e-5
_IN_LOOPS = (-1.0, 2.0, 0.5)
_PLAIN = (2, 3, 4, 6, 8, 0.25, 0.1, 10, 1.5)


@dataclass(frozen=True)
class Scalar:
    """A number that the code could have meant."""

    text: str
    value: float
    cost: float


def scalars(scene: Scene) -> list[Scalar]:
    """Numbers within reach: named ones, sizes, small constants, and roots and products of them."""
    found = [Scalar(str(c), float(c), 0.3) for c in _PLAIN]
    named = [Scalar(k, float(v), 0.0) for k, v in _floats(scene).items()]
    sizes = [Scalar(k, float(n), 0.1 + 0.1 * ("[" not in k)) for k, n in scene.extents.items()]
    base = [s for s in [*named, *sizes] if s.value > 0]
    found += [*named, *sizes]
    found += [Scalar(_root(scene, s.text), math.sqrt(s.value), s.cost + 0.2) for s in base]
    found += [Scalar(f"({s.text} - 1)", s.value - 1, s.cost + 0.4) for s in base if s.value > 2]
    found += [Scalar(f"{s.text} ** 2", s.value**2, s.cost + 0.3) for s in base]
    found += [Scalar(f"(1 - {s.text})", 1 - s.value, s.cost + 0.3) for s in named]
    found += [Scalar(_root(scene, str(c)), math.sqrt(c), 0.6) for c in (2, 3)]
    found += [Scalar(repr(math.sqrt(2 / math.pi)), math.sqrt(2 / math.pi), 0.9)]
    return [s for s in found if s.value not in (0.0, 1.0)]


def _floats(scene: Scene) -> dict[str, float]:
    values = {k: plain(v) for k, v in scene.numbers.items()}
    return {k: float(v.reshape(-1)[0].real) for k, v in values.items() if v is not None}


def _root(scene: Scene, text: str) -> str:
    module = scene.module("numpy", "math")
    return f"{part(text, 14)} ** 0.5" if module is None else f"{module}.sqrt({text})"


def weighed(lab: Lab) -> Iterator[Edit]:
    """Edits that give each expression the weight with which a wrong gradient comes out right."""
    numbers = scalars(lab.scene)
    for node, effect in lab.scales.items():
        for (more,) in lab.fits([effect]):
            yield from _weighted(lab.scene, node, 1 + more, numbers)
        if lab.scene.watched.turns[lab.scene.draft.index[node]] > 1:
            for weight in _IN_LOOPS:  # What is handed on from turn to turn is not affine.
                if lab.helps(node, lambda v, w=weight: v * w):
                    yield from _weighted(lab.scene, node, weight, numbers)


def _weighted(scene: Scene, node: ast.expr, weight: float, numbers: list[Scalar]) -> Iterator[Edit]:
    cost = 1.0 + _depth(scene, node)
    if abs(weight + 1) < _NEAR:
        yield from _negated(scene, node, cost)
    elif abs(weight) < _NEAR:
        yield from _left_out(scene, node)
    else:
        yield from _scaled(scene, node, weight, numbers, cost)


def _depth(scene: Scene, node: ast.expr) -> float:
    """How unlikely it is that a factor is missing here: 0 for a whole gradient, or a term; more
    for what is computed again from the forward."""
    away = 0.0 if scene.flows(node) else 0.3
    if node in scene.roots:
        return away
    parent = scene.draft.parents[node]
    term = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub)
    return away + (0.1 if term else 0.3)


def _negated(scene: Scene, node: ast.expr, cost: float) -> Iterator[Edit]:
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
    elif not (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)):
        text = f"-{as_part(scene.draft, node, MUL)}"
        yield scene.put(node, text, "sign", cost + 0.05)


def _left_out(scene: Scene, node: ast.expr) -> Iterator[Edit]:
    match scene.draft.parents[node]:
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right) as parent:
            if right is node:
                yield scene.put(parent, scene.draft.src(left), "extra_term", 1.1)
            elif isinstance(op, ast.Add):
                yield scene.put(parent, scene.draft.src(right), "extra_term", 1.1)
            else:
                text = f"-{as_part(scene.draft, right, UNARY)}"
                yield scene.put(parent, text, "extra_term", 1.1)
        case ast.AugAssign() as parent:
            yield removed(scene.draft, parent, "extra_term", 1.1)
        case _:
            return


def _scaled(
    scene: Scene, node: ast.expr, weight: float, numbers: list[Scalar], cost: float
) -> Iterator[Edit]:
    here = as_part(scene.draft, node, MUL)
    value = scene.value(node)
    if isinstance(value, int | float):
        for text, extra in spelled(value * weight, numbers):
            constant = isinstance(node, ast.Constant)
            yield scene.put(node, text, "factor", (1.05 if constant else 0.7) + extra)
    sign = "-" if weight < 0 else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        divisor = scene.value(node.right)
        if isinstance(divisor, int | float) and weight > 0:
            for text, extra in spelled(divisor / weight, numbers):
                yield scene.put(node.right, text, "factor", 0.7 + extra)
    for text, extra in factors(abs(weight), numbers):
        yield scene.put(node, f"{sign}{here} {text}", "factor", cost + extra)


def factors(weight: float, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    """`* s` and `/ s` for every s that gives the weight, and how far-fetched each is."""
    for s in numbers:
        text = part(s.text, MUL + 1)
        if _is(s.value, weight):
            yield f"* {text}", s.cost
        elif _is(s.value * weight, 1.0):
            yield f"/ {text}", s.cost
    if _is(weight, round(weight)):
        yield f"* {round(weight)}", 0.5
    for a in numbers[len(_PLAIN) :]:
        for b in numbers:
            if a.value != b.value and _is(a.value * weight, b.value):
                yield f"* {part(b.text, MUL + 1)} / {part(a.text, MUL + 1)}", 0.8


def spelled(value: float, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    """Texts of a number that stands alone."""
    for s in numbers:
        if _is(s.value, value):
            yield s.text, s.cost
        elif _is(s.value * value, 1.0):
            yield f"1 / {part(s.text, MUL + 1)}", s.cost
    short = float(f"{value:.4g}")
    if _is(short, value):
        yield (str(int(short)) if short == int(short) else repr(short)), 0.3


def coefficient(text: str, weight: float, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    """`+ term`, `- term`, `- term / s` for every s that gives the weight of a term."""
    sign = "-" if weight < 0 else "+"
    if _is(abs(weight), 1.0):
        yield f"{sign} {part(text, ADD + 1)}", 0.0
        return
    for factor, extra in factors(abs(weight), numbers):
        yield f"{sign} {part(text, MUL)} {factor}", extra


def _is(a: float, b: float) -> bool:
    return abs(a - b) <= _NEAR * max(abs(a), abs(b))
