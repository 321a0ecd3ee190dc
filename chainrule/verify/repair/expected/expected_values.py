"""What intermediate values of a backward should be, known without any backward.

If an expression of the forward moves by t, the outputs move, and <g, y> by <c, t>: c is the
cotangent of that expression, whoever computes it. So of each value that a backward makes on the way
it is known whether it is such a cotangent (the mistake comes after it), or a multiple of one (the
mistake came before). Of many places at which one sign could be turned, this tells the right one.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan

import numpy as np

from chainrule.verify.repair.code.syntax import names_in, replaces_unread, undone
from chainrule.verify.repair.expected.cotangents import forward_of, given_name
from chainrule.verify.repair.expected.multiples import (
    Known,
    first_wrong_iteration,
    flows,
    is_negated,
    is_one,
    multiples,
    names_of,
)
from chainrule.verify.repair.problem import Forward
from chainrule.verify.repair.rule_costs import AFTER, BEFORE, CALLED_SO, HERE, TURNED, VICTIM
from chainrule.verify.repair.values.lab import Lab
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.tolerances import CLOSE


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
    known = multiples(lab)
    returned = set(lab.scene.returned)  # Right for another value, it may be wrong for its input.
    costs = {n: c for n in lab.scene.roots if (c := _cost(lab, n, known)) is not None}
    costs = {n: c for n, c in costs.items() if c != AFTER or n not in returned}
    for node in lab.scene.roots:
        if node not in costs and _feeds_right(lab.scene, node, costs):
            costs[node] = BEFORE
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
    known = multiples(lab)
    forward = forward_of(lab.problem, lab.target)
    other = next((n for n in lab.scene.roots if _differs(lab, n, forward)), None)
    is_wrong = (HERE, TURNED * HERE, CALLED_SO)
    wrong = [n for n in lab.scene.roots if _cost(lab, n, known) in is_wrong]
    wrong = [n for n in wrong if not lab.spoils(n)]
    if other is not None and not (wrong and _precedes(lab.scene, wrong[0], other)):
        name = names_of(lab.scene, other)[0]
        return Wrong(other, f"`{name}` has not the value that `{name}` has in the forward")
    if not wrong:
        return None
    carried = first_wrong_iteration(lab, wrong[0]) > 0
    node = _shared_source(lab.scene, wrong, known, carried) or wrong[0]
    c = known[wrong[0]]
    return Wrong(node, _in_words(lab.scene, wrong[0], c), by_name=not isfinite(c))


def _precedes(scene: Scene, a: ast.expr, b: ast.expr) -> bool:
    return scene.draft.span(a)[0] < scene.draft.span(b)[0]


def _shared_source(
    scene: Scene, wrong: list[ast.expr], known: Known, carried: bool
) -> ast.expr | None:
    """Where several values go wrong at once: the value that all of them read, of which nothing is
    known; if they are right at first, the one that the turn before hands on."""
    read = [{n.id for n in _read(node) if n not in known} & scene.flowing for node in wrong]
    names = set[str].intersection(*read) - scene.cotangents if len(wrong) > 1 else set[str]()
    start = scene.draft.span(wrong[0])[0]
    made = [r for r in scene.roots if given_name(scene, r) in names]
    if not carried:
        made = [r for r in made if scene.draft.span(r)[0] < start]
    return max(made, key=lambda r: scene.draft.span(r)[0], default=None)


def _in_words(scene: Scene, node: ast.expr, c: float) -> str:
    if isfinite(c):
        return f"`{scene.draft.src(node)}` is {c:.4g} times what it should be"
    name = given_name(scene, node)
    return f"`{name}` is not the derivative by the `{undone(name)[0]}` of the forward"


def truths(lab: Lab) -> int:
    """How many of the values that a version computes are known to be true cotangents, as those that
    come in are, less those that are known to be none, and those of the forward that are computed
    again and come out as others."""
    known, forward = multiples(lab), forward_of(lab.problem, lab.target)
    made = [n for n in lab.scene.roots if n in known and flows(lab, n)]
    others = [n for n in lab.scene.roots if _differs(lab, n, forward)]
    given = [n for n in lab.scene.roots if lab.scene.draft.src(n) in lab.scene.cotangents]
    given = [n for n in given if not given_name(lab.scene, n)]
    return sum([1 if is_one(known[n]) else -1 for n in made]) + len(given) - len(others)


def is_true(lab: Lab, node: ast.expr) -> bool:
    """Whether a value is known to be a true cotangent, or what the forward calls so."""
    known = multiples(lab)
    return node in known and is_one(known[node])


def _differs(lab: Lab, node: ast.expr, forward: Forward) -> bool:
    """Whether a value that is computed again is not what the forward computed by that name."""
    scene = lab.scene
    parent = scene.draft.parents[node]
    if not isinstance(parent, ast.Assign) or isinstance(node, ast.Name) or flows(lab, node):
        return False
    if scene.watched.turns[scene.draft.index[node]] != 1:  # Turns need not come in the same order.
        return False
    value = plain(scene.value(node))
    same = [forward.names[n] for n in names_of(scene, node) if n in forward.names]
    return value is not None and any(
        v.shape == value.shape and not np.allclose(v, value, rtol=CLOSE) for v in same
    )


def _cost(lab: Lab, node: ast.expr, known: Known) -> float | None:
    """How unlikely it is that the mistake is at `node`; None if it cannot be there."""
    if _overwrites(lab.scene, node):
        return None
    here = known.get(node)
    spoiled = [known[n] for n in _read(node) if n in known and _spoils(known[n], here)]
    if spoiled and here is not None and _scales(spoiled, here):
        return None
    if here == inf or any(not is_negated(c) for c in spoiled):
        return VICTIM
    if spoiled:
        return TURNED * VICTIM
    if here is None:
        return None
    if is_one(here):
        return None if _is_handed_on(lab.scene, node) else AFTER
    if isnan(here):
        return CALLED_SO
    if isinstance(node, ast.Name):
        return VICTIM
    return TURNED * HERE if is_negated(here) else HERE


def _is_handed_on(scene: Scene, node: ast.expr) -> bool:
    """Whether a value gets another name, or is given to a call: right as it is, it may be wrong for
    that."""
    given = isinstance(node, ast.Name) and isinstance(scene.draft.parents[node], ast.Call)
    return given or scene.draft.span(node) in scene.renamed


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
    return not is_one(read) and not (read == inf and here is not None and isnan(here))


def _scales(read: Sequence[float], here: float) -> bool:
    """Whether multiples come in, and another multiple comes out: a factor is put right here, and
    what it lacks is lacking here."""
    numbers = [c for c in (*read, here) if isfinite(c)]
    apart = all(abs(abs(c / here) - 1) > CLOSE for c in read)
    return len(numbers) == len(read) + 1 and apart and not is_one(here)


def _feeds_right(scene: Scene, node: ast.expr, costs: dict[ast.expr, float]) -> bool:
    """Whether the name that a value is given is read, and only for values that are right."""
    match scene.draft.parents[node]:
        case ast.Assign(targets=[ast.Name(id=name)]):
            line = scene.draft.span(node)[1]
        case _:
            return False
    readers = [r for r in scene.roots if scene.draft.span(r)[0] > line and name in names_in(r)]
    again = [r for r in readers if name in names_of(scene, r)]
    last = readers.index(again[0]) + 1 if again else len(readers)
    return bool(readers) and all(costs.get(r) == AFTER for r in readers[:last])


def _doubt(scene: Scene, node: ast.expr, cost: float) -> Doubt:
    start, end = scene.draft.span(node)
    parent = scene.draft.parents[node]
    if isinstance(parent, ast.Assign | ast.AugAssign):
        start = scene.draft.span(parent)[0]
    return Doubt(start, end, cost)
