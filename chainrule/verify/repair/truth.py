"""What intermediate values of a backward should be, known without any backward.

If an expression of the forward moves by t, the outputs move, and <g, y> by <c, t>: c is the
cotangent of that expression, whoever computes it. So of each value that a backward makes on the way
it is known whether it is such a cotangent (the mistake comes after it), or a multiple of one (the
mistake came before). Of many places at which one sign could be turned, this tells the right one.

Cotangents are compared by their products with a few random directions, for which the forward runs
twice each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from chainrule.verify.repair.draft import Draft
from chainrule.verify.repair.lab import Lab, moved
from chainrule.verify.repair.problem import Forward, Problem
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.syntax import names_in
from chainrule.verify.repair.target import Target, quiet
from chainrule.verify.repair.watch import Watched, plain
from chainrule.verify.subject import Array, Subject

_DIRECTIONS = 3
_STEP = 1e-4
_SAME = 1e-5
"""Relative error up to which two cotangents are the same."""
_SECONDS = 0.3
"""For the forward's expressions; those that it does not suffice for are not known."""
_VICTIM, _AFTER, _BEFORE, _HERE = 0.5, 0.8, 0.9, -0.3
"""What a place costs where wrong values come in; where what comes out is right; where what comes
out is only read for what is right; where right values come in and a multiple of the right one comes
out."""


@dataclass(frozen=True, eq=False)
class Doubt:
    """How unlikely a mistake is between two offsets of a text."""

    start: int
    end: int
    cost: float


def doubts(lab: Lab) -> list[Doubt]:
    """What is known of each value that a version assigns or returns, by its place in the text."""
    known = _multiples(lab)
    returned = set(lab.scene.returned)  # Right for another value, it may be wrong for its input.
    costs = {n: c for n in lab.scene.roots if (c := _cost(n, known)) is not None}
    costs = {n: c for n, c in costs.items() if c != _AFTER or n not in returned}
    for node in lab.scene.roots:
        if node not in costs and _feeds_right(lab.scene, node, costs):
            costs[node] = _BEFORE
    return [_doubt(lab.scene, node, cost) for node, cost in costs.items()]


def first_wrong(lab: Lab) -> tuple[ast.expr, str] | None:
    """The first value that is a multiple of what it should be, or else the first that the forward
    has by the same name and otherwise, and that in words; None if no value is known to be wrong."""
    known = _multiples(lab)
    for node in lab.scene.roots:
        if _cost(node, known) == _HERE:
            text = lab.scene.draft.src(node)
            return node, f"`{text}` is {known[node]:.4g} times what it should be"
    forward = _forward(lab.problem, lab.target)
    for node in lab.scene.roots:
        if _differs(lab.scene, node, forward):
            name = _called(lab.scene, node)[0]
            return node, f"`{name}` has not the value that `{name}` has in the forward"
    return None


def _differs(scene: Scene, node: ast.expr, forward: Forward) -> bool:
    """Whether a value that is computed again is not what the forward computed by that name."""
    parent = scene.draft.parents[node]
    if not isinstance(parent, ast.Assign) or isinstance(node, ast.Name) or _flows(scene, node):
        return False
    value = plain(scene.value(node))
    same = [forward.names[n] for n in _called(scene, node) if n in forward.names]
    return value is not None and any(
        v.shape == value.shape and not np.allclose(v, value, rtol=_SAME) for v in same
    )


def _cost(node: ast.expr, known: dict[ast.expr, float]) -> float | None:
    inside = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n in known]
    if any(not _one(known[n]) for n in inside if n is not node):
        return _VICTIM
    if node not in known:
        return None
    if _one(known[node]):
        return _AFTER
    return _VICTIM if isinstance(node, ast.Name) else _HERE


def _feeds_right(scene: Scene, node: ast.expr, costs: dict[ast.expr, float]) -> bool:
    """Whether the name that a value is given is read, and only for values that are right."""
    match scene.draft.parents[node]:
        case ast.Assign(targets=[ast.Name(id=name)]):
            line = scene.draft.span(node)[1]
        case _:
            return False
    readers = [r for r in scene.roots if scene.draft.span(r)[0] > line and name in names_in(r)]
    again = [r for r in readers if name in _called(scene, r)]
    last = readers.index(again[0]) + 1 if again else len(readers)
    return bool(readers) and all(costs.get(r) == _AFTER for r in readers[:last])


def _doubt(scene: Scene, node: ast.expr, cost: float) -> Doubt:
    start, end = scene.draft.span(node)
    parent = scene.draft.parents[node]
    if isinstance(parent, ast.Assign | ast.AugAssign):
        start = scene.draft.span(parent)[0]
    return Doubt(start, end, cost)


def _one(c: float) -> bool:
    return abs(c - 1) <= _SAME


def _multiples(lab: Lab) -> dict[ast.expr, float]:
    """Expressions of the backward that are c times a cotangent of the forward's, and c: 1 if they
    are one themselves."""
    forward = _forward(lab.problem, lab.target)
    found = dict[ast.expr, float]()
    for node in lab.scene.expressions:
        value = plain(lab.scene.value(node))
        if value is None or value.dtype.kind not in "fi" or not value.size:
            continue
        if lab.scene.watched.turns[lab.scene.draft.index[node]] == 1:
            ratios = list(_ratios(lab.scene, node, value, forward))
            if ratios:
                found[node] = min(ratios, key=lambda c: abs(c - 1))
    return found


def _ratios(scene: Scene, node: ast.expr, value: Array, forward: Forward) -> Iterator[float]:
    """Of what a value is a multiple: of cotangents if it is made of one, else of what the forward
    calls by the same name."""
    if _flows(scene, node):
        if value.size < _DIRECTIONS:
            return
        seen, own = _products(value), _returned_for(scene, node, forward)
        every = forward.cotangents.get(value.shape, [])
        same = [(seen, p) for p in (every if own is None else [own])]
    else:
        named = [forward.names[n] for n in _called(scene, node) if n in forward.names]
        same = [(value.reshape(-1), v.reshape(-1)) for v in named if v.shape == value.shape]
    yield from [c for c in (_ratio(a, b) for a, b in same) if c is not None]


def _returned_for(scene: Scene, node: ast.expr, forward: Forward) -> Array | None:
    """What is known of the gradient of an input, where a value gets the name that is returned for
    it: right for another input, it would be wrong for this one."""
    names = [n.id if isinstance(n, ast.Name) else "" for n in scene.returned]
    given = [name for name in _called(scene, node) if names.count(name) == 1]
    order = sorted(forward.inputs)
    if not given or isinstance(node, ast.Name) or len(names) != len(order):
        return None
    found = forward.inputs[order[names.index(given[0])]]
    return found if np.any(found) else None


def _called(scene: Scene, node: ast.expr) -> list[str]:
    """The name that a value has, or is given."""
    match node, scene.draft.parents[node]:
        case ast.Name(id=name), _:
            return [name]
        case _, ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case _:
            return []


def _flows(scene: Scene, node: ast.expr) -> bool:
    """Whether a value is made of a cotangent, and is not the very one that comes in."""
    return bool(names_in(node) & scene.flowing) and scene.draft.src(node) not in scene.cotangents


def _ratio(seen: Array, true: Array) -> float | None:
    """c, if `seen` is c times `true`."""
    if not np.any(true):
        return None
    c = float(seen @ true) / float(true @ true)
    near = np.linalg.norm(seen - c * true) <= _SAME * np.linalg.norm(seen)
    return c if near and np.isfinite(c) and c != 0 else None


def _products(value: Array) -> Array:
    return _directions(value.shape) @ value.reshape(-1)


def _directions(shape: Shape) -> Array:
    """The same ones for every value of a shape."""
    rng = np.random.default_rng(list(shape))
    return rng.standard_normal((_DIRECTIONS, int(np.prod(shape))))


# The forward.


def _forward(problem: Problem, target: Target) -> Forward:
    """What is known of the forward at a target; measured once."""
    key = id(target)
    if key not in problem.forwards:
        with quiet():
            problem.forwards[key] = _measured(problem, target)
    return problem.forwards[key]


def _measured(problem: Problem, target: Target) -> Forward:
    by_shape, inputs = dict[Shape, list[Array]](), dict[int, Array]()
    for i in target.expected:
        inputs[i] = products = _by_input(problem.subject, target, i)
        by_shape.setdefault(np.shape(target.xs[i]), []).append(products)
    source = problem.subject.source
    if source is None or source.forward is None:
        return Forward(by_shape, {}, inputs)
    try:
        draft = Draft.of(source.forward)
        watched = Watched(draft)
        subject = source.forward.replaced(watched.function)
        subject.forward(target.xs)
    except (Exception, SystemExit):  # Of a forward that cannot be watched no more is known.
        return Forward(by_shape, {}, inputs)
    scene = Scene(draft, watched, (), ())
    stop = process_time() + _SECONDS
    for node in sorted(_made(scene), key=lambda n: n not in scene.roots):
        if process_time() > stop:
            break
        if (products := _moved_by(scene, node, subject, target)) is not None:
            by_shape.setdefault(scene.shape(node) or (), []).append(products)
    named = {k: plain(v) for k, v in watched.names.items()}
    floats = {k: v for k, v in named.items() if v is not None and v.dtype.kind in "fi"}
    return Forward(by_shape, floats, inputs)


def _made(scene: Scene) -> list[ast.expr]:
    """Expressions that make a value, not those that read one by its name: it may be read again."""
    named = (ast.Name, ast.Attribute, ast.Subscript)
    return [n for n in scene.expressions if not isinstance(n, named)]


def _by_input(subject: Subject, target: Target, i: int) -> Array:
    """Products of an input's true gradient with the directions of its shape."""
    x = np.asarray(target.xs[i])
    if x.dtype.kind != "f" or x.size < _DIRECTIONS:
        return np.zeros(_DIRECTIONS)
    h, slopes = _width(x), np.zeros(_DIRECTIONS)
    for k, t in enumerate(_directions(x.shape)):
        ends = list[float]()
        for s in (h, -h):
            xs = [x + s * t.reshape(x.shape) if j == i else v for j, v in enumerate(target.xs)]
            ends.append(_paired(subject, xs, target))
        slopes[k] = (ends[0] - ends[1]) / (2 * h)
    return slopes if np.all(np.isfinite(slopes)) else np.zeros(_DIRECTIONS)


def _width(value: Array) -> float:
    return _STEP * max(float(np.sqrt(np.mean(value**2))), 1e-3)


def _paired(subject: Subject, xs: Sequence[Any], target: Target) -> float:
    """<g, y>; NaN if the forward fails."""
    try:
        ys = subject.forward(xs)
        return sum([float(np.real(np.vdot(g, y))) for g, y in zip(target.gs, ys, strict=True)])
    except (Exception, SystemExit):
        return float("nan")


def _moved_by(scene: Scene, node: ast.expr, subject: Subject, target: Target) -> Array | None:
    """By how much <g, y> changes as an expression moves along each direction; None if it does not,
    or if that cannot be told."""
    value, at = plain(scene.value(node)), scene.draft.index[node]
    if value is None or value.dtype.kind != "f" or value.size < _DIRECTIONS:
        return None
    if scene.watched.turns[at] != 1 or not np.all(np.isfinite(value)):
        return None
    h, slopes = _width(value), np.zeros(_DIRECTIONS)
    for k, t in enumerate(_directions(value.shape)):
        ends = list[float]()
        for s in (h, -h):
            scene.watched.changes = {at: moved(s * t, value.shape)}
            ends.append(_paired(subject, target.xs, target))
        slopes[k] = (ends[0] - ends[1]) / (2 * h)
    scene.watched.changes = {}
    return slopes if np.all(np.isfinite(slopes)) and np.linalg.norm(slopes) > 1e-9 else None
