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

from chainrule.verify.repair.budget import MOST_FOR_FORWARD, RUNS_OF_FORWARD, SECONDS_FOR_FORWARD
from chainrule.verify.repair.code.draft import Draft
from chainrule.verify.repair.code.syntax import elements, is_stored
from chainrule.verify.repair.code.value_flow import statements_of_value
from chainrule.verify.repair.helpers import helpers_of_forward
from chainrule.verify.repair.problem import Forward, Problem
from chainrule.verify.repair.target import Target, quiet
from chainrule.verify.repair.values.response import adding, in_iteration
from chainrule.verify.repair.values.scene import Scene, Shape
from chainrule.verify.repair.values.watch import Watched, plain
from chainrule.verify.subject import Array, Subject

DIRECTIONS = 3
_STEP = 1e-4


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
            problem.forwards[key] = _measure(problem, target)
    return problem.forwards[key]


def _measure(problem: Problem, target: Target) -> Forward:
    """The cotangents of a forward's values; those of its inputs alone where it cannot be run in
    parts."""
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
        subject = (source.forward.computed or source.forward.replaced)(watched.function)
        seconds = _seconds_for(subject, target)
    except (Exception, SystemExit):  # Of a forward that cannot be watched no more is known.
        return Forward(by_shape, {}, inputs)
    scene = Scene(draft, watched, (), ())
    stop = process_time() + seconds
    by_name, measured = dict[str, list[Array]](), Counter[str]()
    stored = Counter([n.id for n in draft.nodes if isinstance(n, ast.Name) and is_stored(n)])
    idle = [] if source.handing_on is None else source.handing_on(draft.root)
    apart = source.separate_forward is not None
    of_value = None if apart else statements_of_value(draft.root, idle)
    for node in sorted(_makers_of_values(scene, of_value), key=lambda n: n not in scene.roots):
        found = list(_moved_by(scene, node, subject, target, stop))
        for shape, cotangent in found:
            by_shape.setdefault(shape, []).append(cotangent)
        name = scene.draft.src(node) if _is_unpacked(scene, node) else given_name(scene, node)
        if name and len(found) == len(scene.visits(node)):
            by_name.setdefault(name, []).extend([c for _, c in found])
            measured[name] += 1
    for shape, cotangent in _in_helpers(problem.subject, target):
        by_shape.setdefault(shape, []).append(cotangent)
    by_name = {k: v for k, v in by_name.items() if measured[k] == stored[k]}
    given = {problem.subject.inputs[i].name.split(".")[-1]: v for i, v in inputs.items()}
    by_name |= {k: [v] for k, v in given.items() if np.any(v) and k not in stored}
    made = set(watched.names) if of_value is None else _names_given(draft, of_value)
    named = {k: plain(v) for k, v in watched.names.items() if k in made}
    floats = {k: v for k, v in named.items() if v is not None and v.dtype.kind in "fi"}
    return Forward(by_shape, floats, inputs, by_name)


def _seconds_for(subject: Subject, target: Target) -> float:
    """How long a forward is looked at, which runs once for it: one with loops has as many values
    moved as another."""
    start = process_time()
    subject.forward(target.xs)
    return min(SECONDS_FOR_FORWARD + RUNS_OF_FORWARD * (process_time() - start), MOST_FOR_FORWARD)


def _in_helpers(subject: Subject, target: Target) -> Iterator[tuple[Shape, Array]]:
    """The cotangents of what functions of the user's make that the forward calls."""
    for helper in helpers_of_forward(subject, target.xs):
        try:
            draft = Draft.of(helper)
            watched = Watched(draft)
            changed = helper.replaced(watched.function)
            stop = _seconds_for(changed, target)
        except (Exception, SystemExit):  # It cannot be watched.
            continue
        scene, stop = Scene(draft, watched, (), ()), stop + process_time()
        made = _makers_of_values(scene, None)
        for node in sorted(made, key=lambda n: n not in scene.roots):
            yield from _moved_by(scene, node, changed, target, stop)


def _names_given(draft: Draft, statements: Sequence[ast.stmt]) -> set[str]:
    """Names that some statements give, and the function's parameters."""
    names = [n for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)]
    return {*draft.parameters, *[n.id for n in names if is_stored(n)]}


def given_name(scene: Scene, node: ast.expr) -> str:
    """The name that a value is given; empty if it is given none."""
    match scene.draft.parents[node]:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.Tuple() as values:
            return _name_in(scene.draft.parents[values], values, node)
        case _:
            return ""


def _is_unpacked(scene: Scene, node: ast.expr) -> bool:
    """Whether it reads a name that is given once, out of what a call returns, and read once, here:
    to move what is read is to move what has the name."""
    if not isinstance(node, ast.Name):
        return False
    every = [n for n in scene.draft.nodes if isinstance(n, ast.Name) and n.id == node.id]
    stores = [scene.draft.parents[n] for n in every if is_stored(n)]
    if len(every) != 2 or is_stored(node) or len(stores) != 1:
        return False
    statement = scene.draft.parents[stores[0]] if isinstance(stores[0], ast.Tuple) else None
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)


def _name_in(statement: ast.AST, values: ast.Tuple, node: ast.expr) -> str:
    """The name that an element of a tuple is given."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)]) if len(names) == len(values.elts):
            target = names[values.elts.index(node)]
            return target.id if isinstance(target, ast.Name) else ""
        case _:
            return ""


def _makers_of_values(scene: Scene, of_value: Sequence[ast.stmt] | None) -> list[ast.expr]:
    """Expressions that make a value, not those that read one by its name: it may be read again. Of
    a function that computes gradients as well, those `of_value`."""
    made = [
        n
        for n in scene.expressions
        if not _reads(n) or _gathers(scene, n) or _is_unpacked(scene, n)
    ]
    if of_value is None:
        return made
    inside = {n for s in of_value for n in ast.walk(s)}
    return [n for n in made if n in inside]


def _reads(node: ast.expr) -> bool:
    match node:
        case ast.Name() | ast.Attribute():
            return True
        case ast.Subscript(value=value):
            return _reads(value)
        case _:
            return False


def _gathers(scene: Scene, node: ast.expr) -> bool:
    """Whether elements are put together by an array of indices: `table[ids]`."""
    return isinstance(node, ast.Subscript) and any(map(scene.shape, elements(node.slice)))


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
            ends.append(_value_of(subject, xs, target))
        slopes[k] = (ends[0] - ends[1]) / (2 * h)
    return slopes if np.all(np.isfinite(slopes)) else np.zeros(DIRECTIONS)


def _width(value: Array) -> float:
    return _STEP * max(float(np.sqrt(np.mean(value**2))), 1e-3)


def _value_of(subject: Subject, xs: Sequence[Any], target: Target) -> float:
    """<g, y>, for the g that the backward's code has; NaN if the forward fails."""
    try:
        ys = subject.forward(xs)
        gs = target.gs if subject.takes_cotangent else [np.ones_like(y) for y in ys]
        return sum([float(np.real(np.vdot(g, y))) for g, y in zip(gs, ys, strict=True)])
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
                change = in_iteration(turn, adding(s * t, value.shape))
                scene.watched.changes = {scene.draft.index[node]: change}
                ends.append(_value_of(subject, target.xs, target))
            slopes[k] = (ends[0] - ends[1]) / (2 * h)
        scene.watched.changes = {}
        if np.all(np.isfinite(slopes)) and np.linalg.norm(slopes) > 1e-9:
            yield value.shape, slopes
