"""Which observers look at a script: those for chainrule's programs, and those for PyTorch's.

Each maker is called when its library is there; what they import is imported only then.
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.observer import Observer
from chainrule.verify.script.session import Makers


def _native_backwards() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.functions import OwnFunctions
    from chainrule.verify.script.backwards.scalar_engine import ScalarEngines

    return [OwnFunctions(), ScalarEngines()]


def _native_loop() -> Sequence[Observer]:
    from chainrule.verify.script.step.native_step import NativeRecorder
    from chainrule.verify.script.step.one_step import OneStep
    from chainrule.verify.training import own_parts

    return own_parts(lambda bus: OneStep(bus, NativeRecorder()))[0]


def _torch_backwards() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.functions import TorchFunctions

    return [TorchFunctions()]


def _torch_loop() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.recomputed import Recomputed
    from chainrule.verify.script.step.one_step import OneStep
    from chainrule.verify.script.step.torch_step import TorchRecorder
    from chainrule.verify.training import torch_parts

    parts, _ = torch_parts(lambda bus: OneStep(bus, TorchRecorder()))
    return [parts[0], Recomputed(), *parts[1:]]


def _torch_by_hand() -> Sequence[Observer]:
    from chainrule.verify.script.byhand.optimized import Optimized

    return [Optimized()]


OWN: Makers = (_native_backwards, _native_loop)
TORCH: Makers = (_torch_backwards, _torch_by_hand, _torch_loop)
LOOP: tuple[Makers, Makers] = ((_native_loop,), (_torch_loop,))
"""Those of both that look at the loop around the gradients, and at what it leaves out of them."""
