"""Which observers look at a script: those for chainrule's programs, and those for PyTorch's.

Each maker is called when its library is there; what they import is imported only then. A script
that never imports torch must not pay for it, and one that does may set environment variables before
it does. So we wait at the door (`Arrival`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from chainrule.verify.observer import Observer

Makers = Sequence[Callable[[], Sequence[Observer]]]


class Arrival:
    """Calls `arrived` once, after the module `name` was imported; at once if it is there already.

    `arrived` must not raise. `leave` ends the waiting.
    """

    def __init__(self, name: str, arrived: Callable[[], None]) -> None:
        self._name = name
        self._arrived = arrived

    def wait(self) -> None:
        """Begin to wait."""
        if self._name in sys.modules:
            self._arrived()
        else:
            sys.meta_path.insert(0, self)

    def leave(self) -> None:
        """Wait no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the import system asks of a finder: where `fullname` is."""
        if fullname != self._name:
            return None
        self.leave()
        for finder in sys.meta_path:
            find: Any = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                self._listen(spec.loader)
                return spec
        return None

    def _listen(self, loader: Any) -> None:
        """Hear of the end of the module's code, from this one loader object."""
        if isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return
        execute: Callable[[ModuleType], None] = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            self._arrived()

        loader.exec_module = exec_module


def _native_backwards() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.functions import NativeFunctions
    from chainrule.verify.script.backwards.scalar_engine import ScalarEngines
    from chainrule.verify.script.slips.rows import TextSlips

    return [NativeFunctions(), ScalarEngines(), TextSlips()]


def _native_loop() -> Sequence[Observer]:
    from chainrule.verify.script.known_formulas import FormulasOfPasses
    from chainrule.verify.script.step.native_step import NativeRecorder
    from chainrule.verify.script.step.one_step import OneStep
    from chainrule.verify.training import native_bus, native_parts

    bus = native_bus()
    return [OneStep(bus, NativeRecorder()), *native_parts(bus), FormulasOfPasses(bus)]


def _torch(*, loop_only: bool) -> Sequence[Observer]:
    """All of PyTorch's, or only those that look at its loops."""
    from chainrule.verify.script.backwards.checkpoints import Recomputed
    from chainrule.verify.script.backwards.functions import TorchFunctions
    from chainrule.verify.script.byhand.optimizer_steps import Optimized
    from chainrule.verify.script.known_formulas import FormulasOfPasses
    from chainrule.verify.script.loaders import Loaders
    from chainrule.verify.script.step.leftovers import Leftovers
    from chainrule.verify.script.step.one_step import OneStep
    from chainrule.verify.script.step.torch_step import TorchRecorder
    from chainrule.verify.training import torch_bus, torch_parts

    bus = torch_bus()
    loop = [
        OneStep(bus, TorchRecorder()),
        Recomputed(),
        *torch_parts(bus),
        Leftovers(bus),
        Loaders(bus),
        FormulasOfPasses(bus),
    ]
    return loop if loop_only else [TorchFunctions(bus), Optimized(bus), *loop]


OWN: Makers = (_native_backwards, _native_loop)
TORCH: Makers = (partial(_torch, loop_only=False),)
LOOP: tuple[Makers, Makers] = ((_native_loop,), (partial(_torch, loop_only=True),))
"""Those of both that look at the loop around the gradients, and at what it leaves out of them."""
