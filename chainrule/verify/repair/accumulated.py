"""Gradients that a loop should add up, and of which it has no trace: one more `dw += ...` in it.

What a turn would add is formed of the named arrays of that turn (`pool.py`). Summed over the turns,
the right one is the gradient, up to a constant. Nothing of the user's is run for it.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.lab import Lab
from chainrule.verify.repair.numbers import scalars
from chainrule.verify.repair.pool import Term, named, pool
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.synthesis import alone, fitting
from chainrule.verify.repair.watch import plain

_COST = 1.2
"""How unlikely it is that a sum was started and nothing added to it."""


def accumulated(lab: Lab) -> Iterator[Edit]:
    """Edits that add up, in a loop, the gradient of an input that gets zeros."""
    scene, there = lab.scene, lab.elsewhere
    numbers = scalars(scene, None if there is None else there.scene)
    names = [x.name for x in lab.problem.subject.inputs]
    loops = [n for n in scene.draft.statements if isinstance(n, ast.For)]
    nothing = [i for i in lab.wrong if (got := lab.x_bars[i]) is not None and not np.any(got)]
    for i, loop in itertools.product(nothing, loops):
        if (last := _last_seen(scene, loop)) is None:
            continue
        expected, (statement, node) = lab.target.expected[i], last
        places = list(_places(scene, loop, names, names[i], expected.shape))
        terms = _over_turns(scene, node, expected.shape) if places else []
        for term, weight in fitting(terms, expected.directions, expected.values):
            for text, cost in alone(term, (weight,), numbers):
                for place in places:
                    yield _after(scene, statement, f"{place} += {text}", _COST + cost)


def _last_seen(scene: Scene, loop: ast.For) -> tuple[ast.stmt, ast.expr] | None:
    """The last statement of a loop's own that computes something, and what it computes, if that is
    known for every turn."""
    for statement in reversed(loop.body):
        if isinstance(statement, ast.Assign | ast.AugAssign) and scene.visits(statement.value):
            return statement, statement.value
    return None


def _over_turns(scene: Scene, node: ast.expr, shape: Shape) -> list[Term]:
    """Expressions over the arrays of a turn, summed over all turns. One that a turn lacks is 0 in
    it: so are products with a state that begins with zeros."""
    found = dict[str, Term]()
    for visit in scene.visits(node):
        for term in pool(scene, named(scene, node, visit), shape):
            before = found.get(term.text)
            value = term.value if before is None else before.value + term.value
            found[term.text] = Term(term.text, value, term.cost)
    return list(found.values())


def _places(
    scene: Scene, loop: ast.For, names: list[str], name: str, shape: Shape
) -> Iterator[str]:
    """What holds zeros where the gradient should be: a name that is given them, or a place that is
    called like those to which the loop adds other gradients."""
    for local in sorted(scene.assigned_once):
        value = plain(scene.watched.names.get(local))
        if value is not None and value.shape == shape and not np.any(value):
            yield local
    for node in ast.walk(loop):
        match node:
            case ast.AugAssign(target=ast.Attribute() | ast.Subscript() as target):
                place = scene.draft.src(target)
            case _:
                continue
        for other in [n.split(".")[-1] for n in names if n != name]:
            new = place.replace(other, name.split(".")[-1])
            if other in place and f"{new} +=" not in scene.draft.body:
                yield new


def _after(scene: Scene, statement: ast.stmt, text: str, cost: float) -> Edit:
    end, indent = scene.draft.span(statement)[1], " " * statement.col_offset
    return Edit(end, end, f"\n{indent}{text}", "dropped", cost, f"`{text}` comes in")
