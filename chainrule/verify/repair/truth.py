"""What intermediate values of a backward should be, known without any backward.

If an expression of the forward moves by t, the outputs move, and <g, y> by <c, t>: c is the
cotangent of that expression, whoever computes it. So of each value that a backward makes on the way
it is known whether it is such a cotangent (the mistake comes after it), or a multiple of one (the
mistake came before). Of many places at which one sign could be turned, this tells the right one.

A name tells more: `d_h`, or `grad_h`, is meant to be the cotangent of the `h` of the forward.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, nan
from typing import TypeAlias

import numpy as np

from chainrule.verify.repair.cotangents import DIRECTIONS, forward_of, given_name, products
from chainrule.verify.repair.lab import Lab
from chainrule.verify.repair.problem import Forward
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import names_in
from chainrule.verify.repair.uses import replaces_unread
from chainrule.verify.repair.watch import plain
from chainrule.verify.subject import Array

_SAME = 1e-5
"""Relative error up to which two cotangents are the same."""
_CALLED = re.compile(r"^(?:d_?|g_|grad_?|delta_?)(\w+)$|^(\w+?)_(?:bar|grad|d|g)$")
Known: TypeAlias = dict[ast.expr, float]
"""Expressions of the backward that are c times a cotangent of the forward's, and c: 1 if they are
one themselves; NaN if they should be one by their name and are no multiple of it, as the first ones
of a loop's turns, infinity if that is so in a later turn."""
_VICTIM, _AFTER, _BEFORE, _HERE, _CALLED_SO = 0.5, 0.8, 0.9, -0.3, -0.05
"""What a place costs where wrong values come in; where what comes out is right; where what comes
out is only read for what is right; where right values come in and a multiple of the right one comes
out; where another one comes out than the name says."""
_TURNED = 0.5
"""How much less it says that a value is minus a cotangent: what is subtracted may be kept so."""


@dataclass(frozen=True, eq=False)
class Doubt:
    """How unlikely a mistake is between two offsets of a text."""

    start: int
    end: int
    cost: float


def doubt_at(known: Sequence[Doubt], start: int, end: int) -> float:
    """How unlikely a mistake is in a stretch of a text: 0 where nothing is known, as behind a
    statement."""
    around = [d for d in known if d.start <= start < d.end and end <= d.end]
    return min(around, key=lambda d: d.end - d.start).cost if around else 0.0


def doubts(lab: Lab) -> list[Doubt]:
    """What is known of each value that a version assigns or returns, by its place in the text."""
    known = _multiples(lab)
    returned = set(lab.scene.returned)  # Right for another value, it may be wrong for its input.
    costs = {n: c for n in lab.scene.roots if (c := _cost(lab, n, known)) is not None}
    costs = {n: c for n, c in costs.items() if c != _AFTER or n not in returned}
    for node in lab.scene.roots:
        if node not in costs and _feeds_right(lab.scene, node, costs):
            costs[node] = _BEFORE
    return [_doubt(lab.scene, node, cost) for node, cost in costs.items()]


@dataclass(frozen=True, eq=False)
class Wrong:
    """A value that is not what the forward tells of it."""

    node: ast.expr
    says: str
    by_name: bool = False
    """Whether its name alone says what it should be."""


def first_wrong(lab: Lab) -> Wrong | None:
    """The first value that is a multiple of a cotangent, or none at all, or another value than that
    which the forward calls so; None if none is known to be wrong."""
    known = _multiples(lab)
    forward = forward_of(lab.problem, lab.target)
    other = next((n for n in lab.scene.roots if _differs(lab.scene, n, forward)), None)
    is_wrong = (_HERE, _TURNED * _HERE, _CALLED_SO)
    wrong = [n for n in lab.scene.roots if _cost(lab, n, known) in is_wrong]
    wrong = [n for n in wrong if not lab.spoils(n)]
    if other is not None and not (wrong and _precedes(lab.scene, wrong[0], other)):
        name = _called(lab.scene, other)[0]
        return Wrong(other, f"`{name}` has not the value that `{name}` has in the forward")
    if not wrong:
        return None
    carried = _turn_of(lab, wrong[0]) > 0
    node = _shared(lab.scene, wrong, known, carried) or wrong[0]
    c = known[wrong[0]]
    return Wrong(node, _said(lab.scene, wrong[0], c), by_name=not isfinite(c))


def _precedes(scene: Scene, a: ast.expr, b: ast.expr) -> bool:
    return scene.draft.span(a)[0] < scene.draft.span(b)[0]


def _shared(scene: Scene, wrong: list[ast.expr], known: Known, carried: bool) -> ast.expr | None:
    """Where several values go wrong at once: the value that all of them read, of which nothing is
    known; if they are right at first, the one that the turn before hands on."""
    read = [{n.id for n in _read(node) if n not in known} & scene.flowing for node in wrong]
    names = set[str].intersection(*read) - scene.cotangents if len(wrong) > 1 else set[str]()
    start = scene.draft.span(wrong[0])[0]
    made = [r for r in scene.roots if given_name(scene, r) in names]
    if not carried:
        made = [r for r in made if scene.draft.span(r)[0] < start]
    return max(made, key=lambda r: scene.draft.span(r)[0], default=None)


def _said(scene: Scene, node: ast.expr, c: float) -> str:
    if isfinite(c):
        return f"`{scene.draft.src(node)}` is {c:.4g} times what it should be"
    name = given_name(scene, node)
    return f"`{name}` is not the derivative by the `{_undone(name)[0]}` of the forward"


def truths(lab: Lab) -> int:
    """How many of the values that a version computes are known to be true cotangents, less those
    that are known to be none."""
    known = _multiples(lab)
    made = [n for n in lab.scene.roots if n in known and _flows(lab.scene, n)]
    return sum([1 if _one(known[n]) else -1 for n in made])


def is_true(lab: Lab, node: ast.expr) -> bool:
    """Whether a value is known to be a true cotangent, or what the forward calls so."""
    known = _multiples(lab)
    return node in known and _one(known[node])


def _differs(scene: Scene, node: ast.expr, forward: Forward) -> bool:
    """Whether a value that is computed again is not what the forward computed by that name."""
    parent = scene.draft.parents[node]
    if not isinstance(parent, ast.Assign) or isinstance(node, ast.Name) or _flows(scene, node):
        return False
    if scene.watched.turns[scene.draft.index[node]] != 1:  # Turns need not come in the same order.
        return False
    value = plain(scene.value(node))
    same = [forward.names[n] for n in _called(scene, node) if n in forward.names]
    return value is not None and any(
        v.shape == value.shape and not np.allclose(v, value, rtol=_SAME) for v in same
    )


def _cost(lab: Lab, node: ast.expr, known: Known) -> float | None:
    if _overwrites(lab.scene, node):
        return None
    here = known.get(node)
    spoiled = [known[n] for n in _read(node) if n in known and _spoils(known[n], here)]
    if here == inf or any(not _turned(c) for c in spoiled):
        return _VICTIM
    if spoiled:
        return _TURNED * _VICTIM
    if here is None:
        return None
    if _one(here):
        renamed = lab.scene.draft.span(node) in lab.scene.renamed
        return None if renamed else _AFTER
    if isnan(here):
        return _CALLED_SO
    if isinstance(node, ast.Name):
        return _VICTIM
    return _TURNED * _HERE if _turned(here) else _HERE


def _overwrites(scene: Scene, node: ast.expr) -> bool:
    """Whether a name had another value just before, which nobody has read: a true cotangent it may
    be, and still a part only of what the name stood for."""
    match scene.draft.parents[node]:
        case ast.Assign(targets=[ast.Name(id=name)]) as statement:
            return replaces_unread(scene.draft, statement, name)
        case _:
            return False


def _read(node: ast.expr) -> list[ast.Name]:
    """Names that an expression reads."""
    return [n for n in ast.walk(node) if isinstance(n, ast.Name) and n is not node]


def _spoils(read: float, here: float | None) -> bool:
    """Whether what is read is wrong, and not only later than what is made of it."""
    return not _one(read) and not (read == inf and here is not None and isnan(here))


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


def _turned(c: float) -> bool:
    return abs(c + 1) <= _SAME


def _multiples(lab: Lab) -> Known:
    forward = forward_of(lab.problem, lab.target)
    found: Known = {}
    since = dict[ast.expr, int]()
    for node in lab.scene.expressions:
        values = [plain(v) for v, _ in lab.scene.visits(node)]
        floats = [v for v in values if v is not None and v.dtype.kind in "fi" and v.size]
        if not floats or len(floats) < len(values):
            continue
        each = [set(_ratios(lab.scene, node, v, forward)) for v in floats if np.any(v)]
        same = [c for c in (each[0] if each else ()) if all(_near(c, e) for e in each[1:])]
        if same and lab.scene.draft.span(node) not in lab.scene.renamed:
            found[node] = min(same, key=lambda c: abs(c - 1))
        elif (turn := _called_otherwise(lab.scene, node, floats, forward)) is not None:
            since[node] = turn
    first = min(since.values(), default=0)
    return found | {node: nan if turn == first else inf for node, turn in since.items()}


def _near(c: float, found: set[float]) -> bool:
    return any(abs(c - d) <= _SAME * abs(c) for d in found)


def _called_otherwise(
    scene: Scene, node: ast.expr, values: list[Array], forward: Forward
) -> int | None:
    """The first turn in which the only value of a name is not the cotangent that it is called."""
    name = _name_of(scene, node)
    if name not in scene.assigned_once or not scene.flows(node):
        return None
    meant = _called_after(scene, node, forward)
    if not meant or any(v.size < DIRECTIONS for v in values):
        return None
    right = [not np.any(v) or any(_ratio(products(v), c) for c in meant) for v in values]
    return None if all(right) else right.index(False)


def _turn_of(lab: Lab, node: ast.expr) -> int:
    """The first turn in which a value is not what it is called."""
    values = [plain(v) for v, _ in lab.scene.visits(node)]
    forward = forward_of(lab.problem, lab.target)
    floats = [v for v in values if v is not None]
    return _called_otherwise(lab.scene, node, floats, forward) or 0


def _name_of(scene: Scene, node: ast.expr) -> str:
    return given_name(scene, node) or (node.id if isinstance(node, ast.Name) else "")


def _called_after(scene: Scene, node: ast.expr, forward: Forward) -> list[Array]:
    """What is known of the cotangents that a value is called after, in all turns."""
    return [c for n in _undone(_name_of(scene, node)) for c in forward.by_name.get(n, [])]


def _undone(name: str) -> list[str]:
    """What a cotangent is called after: `h` of `dh`, `d_h`, `grad_h`, `h_bar`."""
    match = _CALLED.match(name)
    return [] if match is None else [g for g in match.groups() if g]


def _ratios(scene: Scene, node: ast.expr, value: Array, forward: Forward) -> Iterator[float]:
    """Of what a value is a multiple: of cotangents if it is made of one, else of what the forward
    calls by the same name."""
    if _flows(scene, node):
        if value.size < DIRECTIONS:
            return
        seen, own = products(value), _returned_for(scene, node, forward)
        every = forward.cotangents.get(value.shape, [])
        meant = _called_after(scene, node, forward)
        if any(_ratio(seen, p) is not None for p in meant):
            every = meant  # `dz` is no cotangent of `-z`, though it may be a multiple of that.
        same = [(seen, p) for p in (every if own is None else [own])]
    else:
        named = [forward.names[n] for n in _called(scene, node) if n in forward.names]
        same = [(value.reshape(-1), v.reshape(-1)) for v in named if v.shape == value.shape]
    yield from [c for c in (_ratio(a, b) for a, b in same) if c is not None]


def _returned_for(scene: Scene, node: ast.expr, forward: Forward) -> Array | None:
    """What is known of the gradient of an input, where a value gets the name that is returned for
    it: right for another input, it would be wrong for this one."""
    made = [n for n in scene.returned if not (isinstance(n, ast.Constant) and n.value is None)]
    names = [n.id if isinstance(n, ast.Name) else "" for n in made]
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
    if isinstance(node, ast.Name) and scene.watched.turns[scene.draft.index[node]] == 1:
        start = scene.draft.span(node)[0]
        before = [r for r in scene.roots if scene.draft.span(r)[0] < start]
        given = [r for r in before if given_name(scene, r) == node.id]
        if given and not scene.flows(given[-1]):
            return False
    return scene.flows(node) and scene.draft.src(node) not in scene.cotangents


def _ratio(seen: Array, true: Array) -> float | None:
    """c, if `seen` is c times `true`."""
    if not np.any(true):
        return None
    c = float(seen @ true) / float(true @ true)
    near = np.linalg.norm(seen - c * true) <= _SAME * np.linalg.norm(seen)
    return c if near and np.isfinite(c) and c != 0 else None
