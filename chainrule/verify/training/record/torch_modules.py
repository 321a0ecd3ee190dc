"""Calls of PyTorch's modules as events."""

from __future__ import annotations

from typing import Any, final

import torch

from chainrule.verify.pytorch.door import resume
from chainrule.verify.pytorch.modules import NOTHING, Listener, listen, unlisten
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.torch_engine import TorchEngine
from chainrule.verify.training.record.torch_loop import TorchTap
from chainrule.verify.where import Line, here

_Token = tuple[int, Line | None]
"""Of a call: its depth, and where it was made."""


@final
class ModuleTap(Tap, Listener):
    """Puts events of modules on the bus; its failure is not the program's."""

    def __init__(self, main: TorchTap) -> None:
        self._main = main
        self._depth = 0  # calls of modules that are running
        self._silent: set[int] = set()  # modules that were seen to run without a graph
        self._lines: dict[tuple[int, bool], tuple[Any, Line | None]] = {}
        self._met: dict[int, Any] = {}

    def put(self, bus: Bus) -> None:
        """Begin to listen."""
        self._bus, self._engine = bus, TorchEngine()
        self._main.before_compiling.append(self._leave)
        listen(self)

    def take(self) -> None:
        """Listen no more."""
        unlisten(self)
        self._lines.clear()
        self._met.clear()

    def _leave(self) -> None:
        """Look no more: what is compiled would be compiled so."""
        unlisten(self)
        self._depth = 0
        if self._main.ops is not None:
            self._main.ops.leave()
            self._bus.notes.append(("ops and modules", "the program uses torch.compile"))

    def enters(self, module: Any, inputs: tuple[Any, ...]) -> _Token | None:
        """A module is being called; `NOTHING` if nobody cares."""
        try:
            resume()  # what was to end a pause may have failed
            recording, depth, ops = torch.is_grad_enabled(), self._depth, self._main.ops
            trains = depth and recording and module.training  # as nearly all calls do
            if ops is not None and not (trains and ops.looks):
                ops.enters(module)
            if not recording:  # a loop over a test set: once is enough
                if id(module) in self._silent:
                    return NOTHING
                self._silent.add(id(module))
            known = self._lines.get((id(module), recording)) if depth else None
            at = known[1] if known is not None else here()
            if known is None or self._bus.attentive:
                self._report_call(
                    events.Entered(self._engine, module, depth, recording, at, inputs)
                )
            self._depth = depth + 1
            return depth, at
        except Exception:
            return None

    def leaves(self, module: Any, token: _Token | None, output: Any) -> None:
        """Its call is over."""
        try:
            ops = self._main.ops
            if ops is not None and not ops.looks:
                ops.leaves(module)
            if token is not None and token is not NOTHING:
                self._depth, at = token
                self._tell(module, at, output)
        except Exception:
            return

    def _tell(self, module: Any, at: Line | None, output: Any) -> None:
        recording = torch.is_grad_enabled()
        if recording and self._bus.hears(events.Passed):
            self._main.tell(events.Passed(self._engine, module, self._depth, at, output))
        if not self._depth:
            self._main.tell(events.Left(self._engine, module, recording, at, output))

    def _report_call(self, event: events.Entered) -> None:
        """Tell of a call. Where a module within another one is called is known from then on; of a
        model, its parameters are: those that come later are leaves of graphs."""
        module = event.module
        if event.depth:
            self._lines[id(module), event.recording] = (module, event.at)
        elif id(module) not in self._met:
            self._met[id(module)] = module
            parameters = [p for p in module.parameters() if isinstance(p, torch.nn.Parameter)]
            self._main.remember(parameters)
        if self._bus.hears(events.Entered):
            self._main.tell(event)
