"""Modes: models that are trained in eval mode, though somebody meant them to be in train mode.

A layer is frozen so on purpose, and then whoever does it says so where the training is. So it is a
note, unless the model was in train mode before, or was put into eval mode by a function that ran it
there, returned, and left it so.
"""

from __future__ import annotations

import dis
import weakref
from dataclasses import dataclass
from types import CodeType
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.record.op_names import MODAL
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import edits, origins
from chainrule.verify.where import placed


@dataclass(eq=False)
class _Mode:
    """How a model was trained."""

    module: weakref.ref[Any]
    evaluated: events.Entered | None = None
    """Its first call in eval mode that was trained."""
    before: int = 0
    """In how many passes it was trained in train mode before."""
    came_back: bool = False
    left: Place | None = None
    """Where a function put it into eval mode, which ran it so and does not put it back."""
    name: str = ""
    """What the program calls it, where it is trained."""


@final
class Modes(Part):
    """Finds `eval_mode`."""

    title = "modes of models"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._modes: dict[int, _Mode] = {}
        self._calls: dict[int, events.Entered] = {}
        """Of models, since the last backward pass."""

    def listens(self) -> Handlers:
        """Calls of whole models, and backward passes."""
        return {events.Entered: self._entered, events.BackwardEnds: self._ended}

    def _of(self, module: Any) -> _Mode:
        row = self._modes.get(id(module))
        if row is None or row.module() is not module:  # Another one may have lived there.
            row = self._modes[id(module)] = _Mode(weakref.ref(module))
        return row

    def _entered(self, e: events.Entered) -> None:
        if e.depth:
            return
        row = self._of(e.module)
        if e.recording:
            self._calls[id(e.module)] = e
            if not e.module.training and row.evaluated is None:
                row.name = edits.known_as(e.module).name
        elif not e.module.training and e.at is not None:
            row.left = _left_by(e.at[0]) or row.left

    def _ended(self, e: events.BackwardEnds) -> None:
        for call in self._calls.values():
            if not any(id(p) in e.touched for p in call.module.parameters()):
                continue
            row = self._of(call.module)
            if not call.module.training:
                row.evaluated = row.evaluated or call
            elif row.evaluated is None:
                row.before += 1
            else:
                row.came_back = True
        self._calls = {}

    def found(self, ledger: Ledger) -> list[Finding]:
        """Models that are trained in eval mode, with layers to which that makes a difference."""
        rows = [(row, row.evaluated) for row in self._modes.values()]
        return [_said(row, call) for row, call in rows if call is not None and _moves(call)]


def _left_by(code: CodeType) -> Place | None:
    """The line at which a function, not a module, puts something into eval mode, if it puts nothing
    into train mode."""
    if code.co_name == "<module>" or "train" in code.co_names or "training" in code.co_names:
        return None
    for step in dis.get_instructions(code):
        called = step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval == "eval"
        if called and step.positions is not None and step.positions.lineno:
            return Place(code.co_filename, step.positions.lineno, code.co_qualname)
    return None


def _said(row: _Mode, call: events.Entered) -> Finding:
    at, left = placed(call.at), _left(row, call)
    why = [f"after {row.before} steps in train mode, to which it did not come back"][: row.before]
    why += [] if left is None else [f"{left.function} puts it there and leaves it so"]
    meant = row.came_back or not why
    name = type(call.module).__name__
    return finding(
        "note" if meant else "warning",
        "eval_mode",
        f"{name} is in eval mode while it is trained: its dropout drops nothing, its batch norm "
        f"uses running statistics; {'that may be on purpose' if meant else '; '.join(why)}",
        "model.train() before the training step, if it is not on purpose",
        at if meant else left or at,
        edit=edits.inserted(at, f"{row.name}.train()") if row.name and not meant else None,
    )


def _left(row: _Mode, call: events.Entered) -> Place | None:
    """Where another function has left it in eval mode, if nobody else in the two files puts
    anything there: whoever wants running statistics says so."""
    at = placed(call.at)
    if row.left is None or at is None:
        return None
    same = (at.file, at.function) == (row.left.file, row.left.function)
    lines = {(p.file, p.line) for f in (at.file, row.left.file) for p in origins.evaluating(f)}
    return None if same or lines != {(row.left.file, row.left.line)} else row.left


def _moves(call: events.Entered) -> bool:
    inside = call.engine.modules(call.module)
    return any(part in type(m).__name__ for _, m in inside for part in MODAL)
