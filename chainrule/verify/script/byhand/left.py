"""What a training step by hand leaves to the next one, and should not: gradients that nobody sets
to zero, parameters that have grown by an update."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chainrule.verify.arrays.members import walk
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.script.byhand.held import array_of
from chainrule.verify.script.byhand.step import WHAT, HandStep, said
from chainrule.verify.script.byhand.turn import Turn
from chainrule.verify.script.byhand.updates import updates_in
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import placed

Shapes = dict[str, tuple[int, ...]]
_MOST = 20_000
"""Things that are looked at while the script stands still."""
_KIND = "training step by hand"


def not_reset(step: HandStep, inputs: Sequence[int]) -> Finding:
    """Gradients that this turn adds to those of the last one; what it adds is right."""
    names = [step.inputs[k].name for k in inputs]
    place = _added_up(step.text.file)
    what = "the gradient" if place is None else f"`{place.text}`"
    says = "a second turn adds the right gradient to what the first one left"
    return Finding(
        "error", WHAT, _KIND, ", ".join(names), (Name("not_reset", says, rank=1.0),), place,
        evidence=(f"{says}: of {', '.join(names)}",),
        correction=Correction(
            f"set to zero, before each step, what {what} adds to", place=place, rechecked=True
        ),
    )  # fmt: skip


def _added_up(file: str) -> Place | None:
    """The first statement that adds to what an update takes off."""
    tree = tree_of_file(file)
    taken = {ast.unparse(n) for u in updates_in(tree) for n in ast.walk(u.gradient)}
    for n in ast.walk(tree):
        if isinstance(n, ast.AugAssign) and ast.unparse(n.target) in taken:
            return Place(file, n.lineno)
    return None


def shapes_of(scope: Mapping[str, Any]) -> Shapes:
    """The shapes of the arrays that a script holds, the first ones of very many things."""
    return dict(_shapes(scope))


def _shapes(scope: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for way, x in itertools.islice(walk(dict(scope)), _MOST):
        array = array_of(x)
        if array is not None:
            yield from ((name, array.shape) for name in said(way.steps))


def grown(turn: Turn, before: Shapes) -> Iterator[Finding]:
    """Parameters that a first turn made larger: a gradient that was not summed made them so."""
    for name, slot in zip(turn.names, turn.found, strict=True):
        old, new, at = before.get(name), slot.array.shape, placed(slot.at)
        if old is not None and old != new:
            says = f"{name} had shape {old} before the first update, and has {new} after it"
            names = (Name("not_summed", says, rank=1.0), Name("wrong_shape", says))
            formula = f"sum the gradient of {name} to shape {old}"
            yield Finding(
                "error", WHAT, _KIND, name, names, at, evidence=(says,),
                correction=Correction(formula, place=at),
            )  # fmt: skip
