"""Watches for loops that change their parameters themselves: one turn of each is verified.

It is also asked what a turn leaves behind, and should not: gradients that nobody sets to zero,
parameters that have grown by an update, or that a gradient reads when they are updated already.
"""

from __future__ import annotations

import ast
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Any, TypeAlias

import numpy as np

from chainrule.verify.arrays.members import walk
from chainrule.verify.certifying.certify import certify
from chainrule.verify.finding import Finding, Level, Name
from chainrule.verify.ledger import Checked, Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.place import Place
from chainrule.verify.script.backwards.engine_ops import Engine
from chainrule.verify.script.byhand.code_hooks import TURNS
from chainrule.verify.script.byhand.loop_gradients import (
    Turn,
    steps_of_turn,
    subject_of_turn,
    turn_of,
)
from chainrule.verify.script.byhand.loss import (
    MeantError,
    UnlikeError,
    accumulation,
    doubted,
    is_surely_wrong,
    keeps_terms,
)
from chainrule.verify.script.byhand.optimizer import has_optimizer, optimizer_findings
from chainrule.verify.script.byhand.script_state import array_of
from chainrule.verify.script.byhand.slopes import square_for_length
from chainrule.verify.script.byhand.slots import Slot
from chainrule.verify.script.byhand.step import WHAT, HandStep, spellings
from chainrule.verify.script.byhand.updates import updates_in
from chainrule.verify.script.clock import Steps
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.subject import Array
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.source import line_as
from chainrule.verify.trees import tree_of_file
from chainrule.verify.user_frames import placed

Shapes = dict[str, tuple[int, ...]]
_MOST = 20_000
"""Things that are looked at while the script stands still."""
_KIND = "training step by hand"
Gradients: TypeAlias = Sequence[Array | None]


def not_reset_finding(step: HandStep, inputs: Sequence[int]) -> Finding:
    """Gradients that this turn adds to those of the last one; what it adds is right."""
    names = [step.inputs[k].name for k in inputs]
    place = _accumulation(step.text.file)
    what = "the gradient" if place is None else f"`{place.text}`"
    says = "a second turn adds the right gradient to what the first one left"
    advice = f"set to zero, before each step, what {what} adds to"
    evidence = f"{says}: of {', '.join(names)}"
    return _of_step("not_reset", says, advice, place, ", ".join(names), evidence, rechecked=True)


def _of_step(
    code: str, says: str, advice: str, place: Place | None, input: str, evidence: str = "",
    level: Level = "error", rechecked: bool = False,
) -> Finding:  # fmt: skip
    return finding(
        level, code, says, advice, place, subject=WHAT, kind=_KIND, input=input, rank=1.0,
        evidence=(evidence or says,), rechecked=rechecked,
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
            found = _of_step(
                "not_summed", says, f"sum the gradient of {name} to shape {old}", at, name
            )
            yield replace(found, names=(*found.names, Name("wrong_shape", says)))


def repeated_elements(turn: Turn) -> Iterator[Finding]:
    """Updates by an index that has some elements more than once: each but one of theirs is lost."""
    for written, line in turn.slots.repeats.items():
        says = f"`{written}` has some elements more than once, and only one update of each counts"
        advice = "np.subtract.at adds up what repeated elements get, as index_add_ does"
        yield _of_step("overwritten", says, advice, placed(line), written)


def late_read(turn: Turn, step: HandStep) -> Finding | None:
    """The first parameter that a gradient reads both before its last update and behind it: what
    moves do before and behind it does not add up. Where all is computed anew for that gradient,
    it reads the parameter behind the update only."""
    (own,) = step.turns(1)
    for name, slot, count in zip(turn.names, turn.found, turn.counts, strict=True):
        behind = _moved(turn, step, slot, [count])
        if not _unlike(turn, own, behind):
            continue
        whole, before = (_moved(turn, step, slot, at) for at in ([count - 1], [count - 1, count]))
        sums = [_sum(a, b, c) for a, b, c in zip(before, behind, own, strict=True)]
        if late := [n for n in _unlike(turn, whole, sums) if n != name]:
            return _late_finding(name, late, placed(slot.at))
    return None


def _sum(before: Array | None, behind: Array | None, own: Array | None) -> Array | None:
    """A gradient with what two moves add to it."""
    if before is None or behind is None or own is None:
        return None
    return before + behind - own


def _moved(turn: Turn, step: HandStep, slot: Slot, at: Sequence[int]) -> Gradients:
    """The gradients where a parameter is moved by one of its updates, and back by another."""
    turn.slots.moved, turn.slots.moves_at = slot, at
    try:
        return step.turns(1)[0]
    finally:
        turn.slots.moved = None


def _unlike(turn: Turn, some: Gradients, others: Gradients) -> list[str]:
    """Names of the parameters of which two gradients differ."""
    rows = zip(turn.names, some, others, strict=True)
    return [n for n, a, b in rows if a is not None and b is not None and not _near(a, b)]


def _near(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * np.max(np.abs(a), initial=0)))


def _late_finding(name: str, late: Sequence[str], place: Place | None) -> Finding:
    says = f"the gradient of {', '.join(late)} reads {name} when it is updated already"
    evidence = f"{says}: a change of {name} at its update changes that gradient"
    advice = f"update {name} when all gradients are computed"
    return _of_step("stale", says, advice, place, late[0], evidence, "warning")


_AT = 2
"""The turn that is looked at: in the first one, much may be zero."""
_PATIENCE = 120.0
"""Seconds after which the copy is given up."""
_LOOPS = 4
"""Loops of which a turn is tried."""


class Unoptimized(Observer):
    """Looks at one turn of a loop without a backward pass and without an optimizer, and counts its
    turns as steps."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._pid = os.getpid()
        self._turns: dict[int, int] = {}
        self._shapes: dict[int, Shapes] = {}
        """By loop: of what there was when its first turn began."""
        self._why: dict[int, str] = {}
        """By loop: why its turn was not judged."""
        self._loop: int | None = None
        """The line of the one that was judged."""
        self._found: list[Finding] = []
        self._wrong: list[Finding] = []
        """What is wrong with its optimizer."""
        self._ledger = Ledger()

    def start(self) -> None:
        """Wait for the second turn of a loop."""
        if can_fork():
            TURNS.listen(self._iteration_begins)

    def stop(self) -> None:
        """Look at no more."""
        TURNS.unlisten(self._iteration_begins)

    def _iteration_begins(self, line: int, frame: FrameType) -> None:
        if self._steps.is_watched or os.getpid() != self._pid:
            return  # a backward pass or an optimizer: others look at these
        turn = self._turns[line] = self._turns.get(line, 0) + 1
        try:
            if turn == 1:
                self._shapes[line] = shapes_of({**frame.f_globals, **frame.f_locals})
                self._optimizer(line, frame)
            if self._loop is None and turn == _AT and len(self._why) < _LOOPS:
                self._look(line, frame)
        except Exception as error:  # our failure is not the script's
            self._why[line] = f"the verifier itself failed: {type(error).__name__}: {error}"
        if line == self._loop:
            self._steps.note_iteration(line)

    def _optimizer(self, line: int, frame: FrameType) -> None:
        """Hold an optimizer of the loop's own against the known ones, from its first turn on."""
        file = frame.f_code.co_filename
        if self._wrong or self._loop is not None or not has_optimizer(file):
            return
        with suppress(LostError):
            self._wrong = in_copy(lambda: optimizer_findings(line, frame), _PATIENCE)

    def _look(self, line: int, frame: FrameType) -> None:
        try:
            before = self._shapes.get(line, {})
            report = in_copy(lambda: _certify(line, frame, before), _PATIENCE)
        except LostError as error:
            self._why[line] = f"could not be checked: {error}"
            return
        if isinstance(report, str):
            self._why[line] = report
            return
        self._loop = line
        self._found, self._ledger = report

    def findings(self, ledger: Ledger) -> list[Finding]:
        """What is wrong with the gradients."""
        if self._loop is None and not self._steps.is_watched:
            rows = [f"the loop of line {line}: {why}" for line, why in self._why.items()]
            ledger.skipped += [Skipped(WHAT, why) for why in rows]
            return self._wrong
        ledger.checked.extend(self._ledger.checked)
        ledger.skipped.extend(self._ledger.skipped)
        ledger.planted = ledger.planted or self._ledger.planted
        return [*self._found, *self._wrong]


def _certify(line: int, frame: FrameType, before: Shapes) -> tuple[list[Finding], Ledger] | str:
    """What a turn shows; why it shows nothing."""
    seen = Checked(WHAT, "training step by hand", 2, 0.0, "two turns of its loop")
    try:
        turn = turn_of(line, frame)
    except UnlikeError as error:
        return str(error)
    if found := [*grown_parameters(turn, before), *repeated_elements(turn)]:
        return found, Ledger(checked=[seen])
    steps: list[HandStep] = []
    try:
        steps = steps_of_turn(turn)
        if left := accumulation(steps):
            return [not_reset_finding(*left)], Ledger(checked=[seen])
        step = subject_of_turn(turn, steps)
    except MeantError as meant:
        late = late_read(turn, steps[0])
        wrong = [late] if late else _uneven(turn, meant.doubted)
        more = [] if wrong else [Skipped(f"{WHAT}: more than those of the loss", str(meant))]
        return wrong, Ledger([seen], more)
    except UnlikeError as error:
        return str(error)
    if any(slot.owner is not None and Engine.of(slot.owner) for slot in turn.found):
        late = late_read(turn, step)  # the ops of such an engine are verified by themselves
        return ([late] if late else []), Ledger(checked=[seen])
    report = certify("script", [step])
    found = [_place_at_update(f, step, turn) for f in report.findings]
    if not step.sure:
        found = [f for f in found if is_surely_wrong(f)]
        if not found:
            return f"they are not those of {step.loss}, which may be no loss"
    late = None if found else late_read(turn, step) or _squared(step)
    return [late] if late else doubted(found, step), _note_scale(report.ledger, step)


def _squared(step: HandStep) -> Finding | None:
    """Gradients that are divided by the square of their length, where the length belongs."""
    at = square_for_length(step) if step.scale != 1 else None
    if at is None:
        return None
    place = Place(step.text.file, at.line)
    says = f"`{at.before}` is the square of a length, where the length belongs: the gradients' "
    says += "length times the loss gradient's is the script's limit, at other parameters as well"
    return finding(
        "error", "factor", says, f"`{at.after}`", place, subject=WHAT, kind=_KIND, rank=1.0,
        evidence=(says,), edit=line_as(place, at.after),
    )  # fmt: skip


def _uneven(turn: Turn, step: HandStep | None) -> list[Finding]:
    """What is wrong with gradients of which some hold more of their parameters than others do."""
    if step is None:
        return []
    found = certify("script", [step]).findings
    return [_place_at_update(f, step, turn) for f in found if keeps_terms(f)]


def _place_at_update(found: Finding, step: HandStep, turn: Turn) -> Finding:
    """The finding at the line that takes the gradient off, where no other one is known."""
    if found.place != step.place or found.input not in turn.names:
        return found
    slot = turn.found[turn.names.index(found.input)]
    return replace(found, place=placed(slot.at) or found.place)


def _note_scale(ledger: Ledger, step: HandStep) -> Ledger:
    """The ledger, with what all gradients have in common."""
    if step.scale != 1:
        why = f"they are those of {step.scale:.4g} times `{step.loss}`, all of them: as by the rate"
        ledger.skipped.append(Skipped(f"{WHAT}: a common factor", why))
    return ledger
