"""Which observers look at a script: those for chainrule's programs, and those for PyTorch's.

Each maker is called when its library is there; what they import is imported only then.
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.observer import Observer
from chainrule.verify.script.session import Makers


def _own_functions() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.functions import OwnFunctions

    return [OwnFunctions()]


def _scalar_engines() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.scalar_engine import ScalarEngines

    return [ScalarEngines()]


def _dead_updates() -> Sequence[Observer]:
    from chainrule.verify.script.byhand.dead import DeadUpdates

    return [DeadUpdates()]


def _own_whole() -> Sequence[Observer]:
    from chainrule.verify.script.step.native_step import OwnWhole

    return [OwnWhole()]


def _torch_functions() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.functions import TorchFunctions

    return [TorchFunctions()]


def _torch_whole() -> Sequence[Observer]:
    from chainrule.verify.script.backwards.recomputed import Recomputed
    from chainrule.verify.script.step.torch_step import WholeObserver

    return [WholeObserver(), Recomputed()]


def _torch_by_hand() -> Sequence[Observer]:
    from chainrule.verify.script.byhand.optimized import Optimized

    return [Optimized()]


def _torch_training() -> Sequence[Observer]:
    from chainrule.verify import training

    return training.observers()


def _own_training() -> Sequence[Observer]:
    from chainrule.verify import training

    return training.own_observers()


OWN: Makers = (_own_functions, _scalar_engines, _dead_updates, _own_whole, _own_training)
TORCH: Makers = (_torch_functions, _torch_whole, _torch_by_hand, _torch_training)
LOOP: tuple[Makers, Makers] = ((_own_whole, _own_training), (_torch_whole, _torch_training))
"""Those of both that look at the loop around the gradients, and at what it leaves out of them."""
