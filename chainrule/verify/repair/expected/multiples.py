"""Of which cotangent of the forward each value of a backward is a multiple, and of how much.

A value made of no cotangent is compared with what the forward calls by the same name. A name tells
more: `d_h`, or `grad_h`, is meant to be the cotangent of the `h` of the forward.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import inf, nan
from typing import TypeAlias

import numpy as np

from chainrule.verify.repair.code.syntax import undone
from chainrule.verify.repair.code.value_flow import names_filled
from chainrule.verify.repair.expected.cotangents import DIRECTIONS, forward_of, given_name, products
from chainrule.verify.repair.problem import Forward
from chainrule.verify.repair.values.lab import Lab
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import CLOSE

Known: TypeAlias = dict[ast.expr, float]
"""Expressions of the backward that are c times a cotangent of the forward's, and c: 1 if they are
one themselves; NaN if they should be one by their name and are no multiple of it, as the first ones
of a loop's turns, infinity if that is so in a later turn."""


def is_one(c: float) -> bool:
    """Whether a value is the cotangent itself."""
    return abs(c - 1) <= CLOSE


def is_negated(c: float) -> bool:
    """Whether it is minus that."""
    return abs(c + 1) <= CLOSE


def multiples(lab: Lab) -> Known:
    """What is known of the values of a version."""
    forward = forward_of(lab.problem, lab.target)
    found: Known = {}
    since = dict[ast.expr, int]()
    for node in lab.scene.expressions:
        values = [plain(v) for v, _ in lab.scene.visits(node)]
        floats = [v for v in values if v is not None and v.dtype.kind in "fi" and v.size]
        if not floats or len(floats) < len(values):
            continue
        each = [set(_ratios(lab, node, v, forward)) for v in floats if np.any(v)]
        same = [c for c in (each[0] if each else ()) if all(_near(c, e) for e in each[1:])]
        if same and _is_of_another(lab, node, floats, forward):
            if given_name(lab.scene, node) in lab.scene.assigned_once:
                since[node] = 0
        elif same and lab.scene.draft.span(node) not in lab.scene.renamed:
            found[node] = min(same, key=lambda c: abs(c - 1))
        elif (turn := _called_otherwise(lab, node, floats, forward)) is not None:
            since[node] = turn
    first = min(since.values(), default=0)
    return found | {node: nan if turn == first else inf for node, turn in since.items()}


def _near(c: float, found: set[float]) -> bool:
    return any(abs(c - d) <= CLOSE * abs(c) for d in found)


def _is_of_another(lab: Lab, node: ast.expr, values: list[Array], forward: Forward) -> bool:
    """Whether a value is a cotangent, but not of what its name says: of a part of that, say, so
    that something is to be added, or of nothing that the name means."""
    meant = _called_after(lab.scene, node, forward)
    if not meant or not flows(lab, node):
        return False
    seen = [products(v) for v in values if v.size >= DIRECTIONS]
    return bool(seen) and not any(_ratio(s, c) is not None for s in seen for c in meant)


def _called_otherwise(
    lab: Lab, node: ast.expr, values: list[Array], forward: Forward
) -> int | None:
    """The first turn in which the only value of a name is not the cotangent that it is called."""
    name = _name_of(lab.scene, node)
    if name not in lab.scene.assigned_once or not _flows(lab, node):
        return None
    meant = _called_after(lab.scene, node, forward)
    if not meant or any(v.size < DIRECTIONS for v in values):
        return None
    right = [not np.any(v) or any(_ratio(products(v), c) for c in meant) for v in values]
    return None if all(right) else right.index(False)


def first_wrong_iteration(lab: Lab, node: ast.expr) -> int:
    """The first turn in which a value is not what it is called."""
    values = [plain(v) for v, _ in lab.scene.visits(node)]
    forward = forward_of(lab.problem, lab.target)
    floats = [v for v in values if v is not None]
    return _called_otherwise(lab, node, floats, forward) or 0


def _name_of(scene: Scene, node: ast.expr) -> str:
    return given_name(scene, node) or (node.id if isinstance(node, ast.Name) else "")


def _called_after(scene: Scene, node: ast.expr, forward: Forward) -> list[Array]:
    """What is known of the cotangents that a value is called after, in all turns."""
    return [c for n in undone(_name_of(scene, node)) for c in forward.by_name.get(n, [])]


def _ratios(lab: Lab, node: ast.expr, value: Array, forward: Forward) -> Iterator[float]:
    """Of what a value is a multiple: of cotangents if it is made of one, else of what the forward
    calls by the same name."""
    scene = lab.scene
    if flows(lab, node):
        if value.size < DIRECTIONS:
            return
        seen, own = products(value), _returned_for(scene, node, forward)
        every = forward.cotangents.get(value.shape, [])
        meant = _called_after(scene, node, forward)
        if any(_ratio(seen, p) is not None for p in meant):
            every = meant  # `dz` is no cotangent of `-z`, though it may be a multiple of that.
        same = [(seen, p) for p in (every if own is None else [own])]
    else:
        named = [forward.names[n] for n in names_of(scene, node) if n in forward.names]
        same = [(value.reshape(-1), v.reshape(-1)) for v in named if v.shape == value.shape]
    yield from [c for c in (_ratio(a, b) for a, b in same) if c is not None]


def _returned_for(scene: Scene, node: ast.expr, forward: Forward) -> Array | None:
    """What is known of the gradient of an input, where a value gets the name that is returned for
    it: right for another input, it would be wrong for this one."""
    made = [n for n in scene.returned if not (isinstance(n, ast.Constant) and n.value is None)]
    names = [n.id if isinstance(n, ast.Name) else "" for n in made]
    given = [name for name in names_of(scene, node) if names.count(name) == 1]
    order = sorted(forward.inputs)
    if not given or isinstance(node, ast.Name) or len(names) != len(order):
        return None
    found = forward.inputs[order[names.index(given[0])]]
    return found if np.any(found) else None


def names_of(scene: Scene, node: ast.expr) -> list[str]:
    """The name that a value has, or is given."""
    match node, scene.draft.parents[node]:
        case ast.Name(id=name), _:
            return [name]
        case _, ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case _:
            return []


def flows(lab: Lab, node: ast.expr) -> bool:
    """Whether a value is made of a cotangent, and is not the very one that comes in."""
    scene = lab.scene
    if isinstance(node, ast.Name) and scene.watched.turns[scene.draft.index[node]] == 1:
        start = scene.draft.span(node)[0]
        before = [r for r in scene.roots if scene.draft.span(r)[0] < start]
        given = [r for r in before if given_name(scene, r) == node.id]
        if given and not _flows(lab, given[-1]) and not _filled(scene, given[-1], node):
            return False
    return _flows(lab, node) and scene.draft.src(node) not in scene.cotangents


def _flows(lab: Lab, node: ast.expr) -> bool:
    """Whether a value is made of a cotangent; where none comes in, whether it is called like one:
    `dlogits = probs - y`."""
    if lab.scene.flows(node):
        return True
    return not lab.problem.subject.takes_cotangent and bool(undone(_name_of(lab.scene, node)))


def _filled(scene: Scene, made: ast.expr, node: ast.Name) -> bool:
    """Whether a name is changed in place by what flows, between where it is made and read."""
    first, last = scene.draft.span(made)[1], scene.draft.span(node)[0]
    between = [n for n in scene.draft.statements if first < scene.draft.span(n)[0] < last]
    return any(node.id in names_filled(n, scene.flowing) for n in between)


def _ratio(seen: Array, true: Array) -> float | None:
    """c, if `seen` is c times `true`."""
    if not np.any(true):
        return None
    c = float(seen @ true) / float(true @ true)
    near = np.linalg.norm(seen - c * true) <= CLOSE * np.linalg.norm(seen)
    return c if near and np.isfinite(c) and c != 0 else None
