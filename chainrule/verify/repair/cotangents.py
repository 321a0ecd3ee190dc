"""Cotangents of the values of a forward, measured by moving them, in each turn of its loops.

They are compared by their products with a few random directions, for which the forward runs twice
each.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any

import numpy as np

from chainrule.verify.repair.draft import Draft
from chainrule.verify.repair.problem import Forward, Problem
from chainrule.verify.repair.response import at_turn, moved
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.syntax import is_stored
from chainrule.verify.repair.target import Target, quiet
from chainrule.verify.repair.watch import Watched, plain
from chainrule.verify.subject import Array, Subject

DIRECTIONS = 3
_STEP = 1e-4
_SECONDS = 0.4
"""For the forward's expressions; those that it does not suffice for are not known."""


def products(value: Array) -> Array:
    """Of a value, with the directions of its shape."""
    return _directions(value.shape) @ value.reshape(-1)


def _directions(shape: Shape) -> Array:
    """The same ones for every value of a shape."""
    rng = np.random.default_rng(list(shape))
    return rng.standard_normal((DIRECTIONS, int(np.prod(shape))))


def forward_of(problem: Problem, target: Target) -> Forward:
    """What is known of the forward at a target; measured once."""
    key = id(target)
    if key not in problem.forwards:
        with quiet():
            problem.forwards[key] = _measured(problem, target)
    return problem.forwards[key]


def _measured(problem: Problem, target: Target) -> Forward:
    by_shape, inputs = dict[Shape, list[Array]](), dict[int, Array]()
    for i in target.expected:
        inputs[i] = _by_input(problem.subject, target, i)
        by_shape.setdefault(np.shape(target.xs[i]), []).append(inputs[i])
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
    by_name, measured = dict[str, list[Array]](), Counter[str]()
    stored = Counter([n.id for n in draft.nodes if isinstance(n, ast.Name) and is_stored(n)])
    for node in sorted(_made(scene), key=lambda n: n not in scene.roots):
        found = list(_moved_by(scene, node, subject, target, stop))
        for shape, cotangent in found:
            by_shape.setdefault(shape, []).append(cotangent)
        name = given_name(scene, node)
        if name and len(found) == len(scene.visits(node)):
            by_name.setdefault(name, []).extend([c for _, c in found])
            measured[name] += 1
    by_name = {k: v for k, v in by_name.items() if measured[k] == stored[k]}
    named = {k: plain(v) for k, v in watched.names.items()}
    floats = {k: v for k, v in named.items() if v is not None and v.dtype.kind in "fi"}
    return Forward(by_shape, floats, inputs, by_name)


def given_name(scene: Scene, node: ast.expr) -> str:
    """The name that a value is given; empty if it is given none."""
    match scene.draft.parents[node]:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.Tuple() as values:
            return _name_in(scene.draft.parents[values], values, node)
        case _:
            return ""


def _name_in(statement: ast.AST, values: ast.Tuple, node: ast.expr) -> str:
    """The name that an element of a tuple is given."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)]) if len(names) == len(values.elts):
            target = names[values.elts.index(node)]
            return target.id if isinstance(target, ast.Name) else ""
        case _:
            return ""


def _made(scene: Scene) -> list[ast.expr]:
    """Expressions that make a value, not those that read one by its name: it may be read again."""
    return [n for n in scene.expressions if not _reads(n)]


def _reads(node: ast.expr) -> bool:
    match node:
        case ast.Name() | ast.Attribute():
            return True
        case ast.Subscript(value=value):
            return _reads(value)
        case _:
            return False


def _by_input(subject: Subject, target: Target, i: int) -> Array:
    """Products of an input's true gradient with the directions of its shape."""
    x = np.asarray(target.xs[i])
    if x.dtype.kind != "f" or x.size < DIRECTIONS:
        return np.zeros(DIRECTIONS)
    h, slopes = _width(x), np.zeros(DIRECTIONS)
    for k, t in enumerate(_directions(x.shape)):
        ends = list[float]()
        for s in (h, -h):
            xs = [x + s * t.reshape(x.shape) if j == i else v for j, v in enumerate(target.xs)]
            ends.append(_paired(subject, xs, target))
        slopes[k] = (ends[0] - ends[1]) / (2 * h)
    return slopes if np.all(np.isfinite(slopes)) else np.zeros(DIRECTIONS)


def _width(value: Array) -> float:
    return _STEP * max(float(np.sqrt(np.mean(value**2))), 1e-3)


def _paired(subject: Subject, xs: Sequence[Any], target: Target) -> float:
    """<g, y>; NaN if the forward fails."""
    try:
        ys = subject.forward(xs)
        return sum([float(np.real(np.vdot(g, y))) for g, y in zip(target.gs, ys, strict=True)])
    except (Exception, SystemExit):
        return float("nan")


def _moved_by(
    scene: Scene, node: ast.expr, subject: Subject, target: Target, stop: float
) -> Iterator[tuple[Shape, Array]]:
    """By how much <g, y> changes as an expression moves along each direction, in each turn of a
    loop, and its shape there; nothing where it does not, or where that cannot be told."""
    for turn, (held, _) in enumerate(scene.visits(node)):
        value = plain(held)
        if value is None or value.dtype.kind != "f" or value.size < DIRECTIONS:
            return
        if process_time() > stop or not np.all(np.isfinite(value)):
            return
        h, slopes = _width(value), np.zeros(DIRECTIONS)
        for k, t in enumerate(_directions(value.shape)):
            ends = list[float]()
            for s in (h, -h):
                change = at_turn(turn, moved(s * t, value.shape))
                scene.watched.changes = {scene.draft.index[node]: change}
                ends.append(_paired(subject, target.xs, target))
            slopes[k] = (ends[0] - ends[1]) / (2 * h)
        scene.watched.changes = {}
        if np.all(np.isfinite(slopes)) and np.linalg.norm(slopes) > 1e-9:
            yield value.shape, slopes
