"""Which observers look at a script: those for chainrule's programs, and those for PyTorch's.

Each maker is called when its library is there; what they import is imported only then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from chainrule.verify.observer import Observer
from chainrule.verify.script.session import Makers


def _native_backwards() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.functions import NativeFunctions
    from chainrule.verify.script.backwards.scalar_engine import ScalarEngines
    from chainrule.verify.script.byhand.dead_updates import DeadUpdates

    return [NativeFunctions(), ScalarEngines(), DeadUpdates()]


def _native_loop() -> Sequence[Observer]:
    from chainrule.verify.script.step.native_step import NativeRecorder
    from chainrule.verify.script.step.one_step import OneStep
    from chainrule.verify.training import native_bus, native_parts

    bus = native_bus()
    return [OneStep(bus, NativeRecorder()), *native_parts(bus)]


def _torch(*, loop_only: bool) -> Sequence[Observer]:
    from chainrule.verify.script.backwards.checkpoints import Recomputed
    from chainrule.verify.script.backwards.functions import TorchFunctions
    from chainrule.verify.script.byhand.optimizer_steps import Optimized
    from chainrule.verify.script.step.one_step import OneStep
    from chainrule.verify.script.step.torch_step import TorchRecorder
    from chainrule.verify.training import torch_bus, torch_parts

    bus = torch_bus()
    loop = [OneStep(bus, TorchRecorder()), Recomputed(), *torch_parts(bus)]
    return loop if loop_only else [TorchFunctions(bus), Optimized(bus), *loop]


OWN: Makers = (_native_backwards, _native_loop)
TORCH: Makers = (partial(_torch, loop_only=False),)
LOOP: tuple[Makers, Makers] = ((_native_loop,), (partial(_torch, loop_only=True),))
"""Those of both that look at the loop around the gradients, and at what it leaves out of them."""
