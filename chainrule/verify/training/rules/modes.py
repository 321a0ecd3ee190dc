"""Modes: models that are trained in eval mode, though somebody meant them to be in train mode.

A layer is frozen so on purpose, and then whoever does it says so where the training is. So it is a
note, unless the model was in train mode before.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, final

from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.op_names import MODAL
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import edits
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
    name: str = ""
    """What the program calls it, where it is trained."""

    @property
    def call(self) -> events.Entered:
        """The call that trained it in eval mode."""
        assert self.evaluated is not None
        return self.evaluated

    @property
    def place(self) -> Place | None:
        """Where it is trained."""
        return placed(self.call.at)

    @property
    def why(self) -> str:
        """What shows that it is not meant; nothing if it came back by itself."""
        after = f"after {self.before} steps in train mode, to which it did not come back"
        return after if self.before and not self.came_back else ""


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
                f"{m.why or 'that may be on purpose'}"
            ),
            "model.train() before the training step, if it is not on purpose",
            lambda m: "warning" if m.why else "note",
            (_is_alike,),
            edit=lambda m: (
                edits.insert_before(m.place, f"{m.name}.train()") if m.name and m.why else None
            ),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.modes: dict[int, _Mode] = {}
        self._calls: dict[int, events.Entered] = {}
        """Of models, since the last backward pass."""

    def _of(self, module: Any) -> _Mode:
        row = self.modes.get(id(module))
        if row is None or row.module() is not module:  # Another one may have lived there.
            row = self.modes[id(module)] = _Mode(weakref.ref(module))
        return row

    @on(events.Entered)
    def _entered(self, e: events.Entered) -> None:
        if e.depth:
            return
        row = self._of(e.module)
        if e.recording:
            self._calls[id(e.module)] = e
            if not e.module.training and row.evaluated is None:
                row.name = edits.known_name(e.module).name

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
