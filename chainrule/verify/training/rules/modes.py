"""Modes: models that are trained in eval mode, though somebody meant them to be in train mode.

A layer is frozen so on purpose, and then whoever does it says so where the training is. So it is a
note, unless the model was in train mode before, or was put into eval mode by a function that ran it
there, returned, and left it so.
"""

from __future__ import annotations

import dis
import weakref
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.loops import loops_of
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.op_names import MODAL
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import edits, origins
from chainrule.verify.user_frames import placed


@dataclass(eq=False)
class _Mode:
    """How a model was trained."""

    module: weakref.ref[Any]
    evaluated: op_events.Entered | None = None
    """Its first call in eval mode that was trained."""
    before: int = 0
    """In how many passes it was trained in train mode before."""
    came_back: bool = False
    left: Place | None = None
    """Where a function put it into eval mode, which ran it so and does not put it back."""
    name: str = ""
    """What the program calls it, where it is trained."""

    @property
    def call(self) -> op_events.Entered:
        """The call that trained it in eval mode."""
        assert self.evaluated is not None
        return self.evaluated

    @property
    def place(self) -> Place | None:
        """Where it is trained."""
        return placed(self.call.at)

    @cached_property
    def left_at(self) -> Place | None:
        """Where another function has left it in eval mode, if nobody else in the two files puts
        anything there: whoever wants running statistics says so."""
        at = self.place
        if self.left is None or at is None:
            return None
        same = (at.file, at.function) == (self.left.file, self.left.function)
        lines = {
            (p.file, p.line)
            for f in (at.file, self.left.file)
            for p in origins.mode_lines(f, "eval")
        }
        return None if same or lines != {(self.left.file, self.left.line)} else self.left

    @cached_property
    def begun_at(self) -> Place | None:
        """The only line that puts anything in the file into train mode, if it is in front of the
        loops that train: it was to be in one of them."""
        at = self.place
        lines = [] if at is None else origins.mode_lines(at.file, "train")
        if at is None or len(lines) != 1 or not self.before:
            return None
        trained = [loop for loop in loops_of(at.file) if loop.has(at)]
        return None if not trained or any(loop.has(lines[0]) for loop in trained) else lines[0]

    @property
    def why(self) -> list[str]:
        """What shows that it is not meant; nothing if it came back by itself."""
        after = f"after {self.before} steps in train mode, to which it did not come back"
        left = self.left_at
        by = [] if left is None else [f"{left.function} puts it there and leaves it so"]
        return [] if self.came_back else [*[after][: self.before], *by]


def _is_alike(mode: _Mode) -> bool:
    """Whether a model has no layers to which the mode makes a difference."""
    inside = mode.call.engine.modules(mode.call.module)
    return not any(part in type(m).__name__ for _, m in inside for part in MODAL)


@final
class Modes(Part):
    """Finds `eval_mode`."""

    title = "modes of models"
    rows = (
        Row(
            "eval_mode",
            lambda f: [m for m in f.modes.values() if m.evaluated is not None],
            lambda m: (
                f"{type(m.call.module).__name__} is in eval mode while it is trained: its dropout "
                "drops nothing, its batch norm uses running statistics; "
                f"{'; '.join(m.why) or 'that may be on purpose'}"
            ),
            "model.train() before the training step, if it is not on purpose",
            lambda m: "warning" if m.why else "note",
            (_is_alike,),
            place=lambda m: (m.begun_at or m.left_at if m.why else None) or m.place,
            edit=lambda m: (
                edits.insert_before(m.place, f"{m.name}.train()") if m.name and m.why else None
            ),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.modes: dict[int, _Mode] = {}
        self._calls: dict[int, op_events.Entered] = {}
        """Of models, since the last backward pass."""

    def _of(self, module: Any) -> _Mode:
        row = self.modes.get(id(module))
        if row is None or row.module() is not module:  # Another one may have lived there.
            row = self.modes[id(module)] = _Mode(weakref.ref(module))
        return row

    @on(op_events.Entered)
    def _entered(self, e: op_events.Entered) -> None:
        if e.depth:
            return
        row = self._of(e.module)
        if e.recording:
            self._calls[id(e.module)] = e
            if not e.module.training and row.evaluated is None:
                row.name = edits.known_name(e.module).name
        elif not e.module.training and e.at is not None:
            row.left = _left_by(e.at[0]) or row.left

    @on(events.BackwardEnds)
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
