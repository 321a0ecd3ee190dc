"""What a training step by hand leaves behind, and should not: gradients that nobody sets to zero,
parameters that have grown by an update, or that a gradient reads when they are updated already."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from chainrule.verify.arrays.members import walk
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.script.byhand.script_state import array_of
from chainrule.verify.script.byhand.slots import Slot
from chainrule.verify.script.byhand.step import WHAT, HandStep, spellings
from chainrule.verify.script.byhand.turn import Turn
from chainrule.verify.script.byhand.updates import updates_in
from chainrule.verify.subject import Array
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import placed

Shapes = dict[str, tuple[int, ...]]
_MOST = 20_000
"""Things that are looked at while the script stands still."""
_KIND = "training step by hand"
_AWAY = 1e-2
"""How far a parameter is moved, relative."""
Gradients: TypeAlias = Sequence[Array | None]


def not_reset_finding(step: HandStep, inputs: Sequence[int]) -> Finding:
    """Gradients that this turn adds to those of the last one; what it adds is right."""
    names = [step.inputs[k].name for k in inputs]
    place = _accumulation(step.text.file)
    what = "the gradient" if place is None else f"`{place.text}`"
    says = "a second turn adds the right gradient to what the first one left"
    return Finding(
        "error", WHAT, _KIND, ", ".join(names), (Name("not_reset", says, rank=1.0),), place,
        evidence=(f"{says}: of {', '.join(names)}",),
        correction=Correction(
            f"set to zero, before each step, what {what} adds to", place=place, rechecked=True
        ),
    )  # fmt: skip


def _accumulation(file: str) -> Place | None:
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
            yield from ((name, array.shape) for name in spellings(way.steps))


def grown_parameters(turn: Turn, before: Shapes) -> Iterator[Finding]:
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


def late_read(turn: Turn, step: HandStep, *, mixed: bool = False) -> Finding | None:
    """The first parameter whose update comes before a gradient has read it: moved by its update, it
    moves that gradient. Where a turn updates it several times, that is what it is for; and where
    all is computed anew, one after the other. `mixed`: only if that gradient reads what it was
    before as well.
    """
    if any(s.times > len(s.written) for s in turn.found):
        return None
    (own,) = step.turns(1)
    for k, (name, slot) in enumerate(zip(turn.names, turn.found, strict=True)):
        late = _moving(turn, own, _moved(turn, step, slot))
        if mixed and late:
            late = [n for n in late if n in _moving(turn, own, _moved_back(turn, step, slot, k))]
        if late:
            return _late_finding(name, late, placed(slot.at))
    return None


def _moved(turn: Turn, step: HandStep, slot: Slot) -> Gradients:
    """The gradients where a parameter is moved by its update."""
    turn.slots.moved = slot
    try:
        return step.turns(1)[0]
    finally:
        turn.slots.moved = None


def _moved_back(turn: Turn, step: HandStep, slot: Slot, k: int) -> Gradients:
    """Those where it was another one before that, and is what it was behind it."""
    x = step.inputs[k]
    inputs = [*step.inputs]
    inputs[k] = replace(x, value=x.value + _AWAY * (1 + np.abs(x.value)))
    turn.slots.moved, turn.slots.into = slot, x.value
    try:
        return replace(step, inputs=tuple(inputs)).turns(1)[0]
    finally:
        turn.slots.moved = turn.slots.into = None


def _moving(turn: Turn, own: Gradients, moved: Gradients) -> list[str]:
    """Names of the parameters of which it moves the gradient."""
    pairs = zip(turn.names, own, moved, strict=True)
    return [n for n, a, b in pairs if a is not None and b is not None and not _near(a, b)]


def _near(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-12 * np.max(np.abs(a), initial=0)))


def _late_finding(name: str, late: Sequence[str], place: Place | None) -> Finding:
    says = f"the gradient of {', '.join(late)} reads {name} when it is updated already"
    return Finding(
        "warning", WHAT, _KIND, late[0], (Name("stale", says, rank=1.0),), place,
        evidence=(f"{says}: a change of {name} at its update changes that gradient",),
        correction=Correction(f"update {name} when all gradients are computed", place=place),
    )  # fmt: skip
