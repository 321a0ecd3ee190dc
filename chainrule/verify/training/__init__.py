"""Mistakes of training loops, found while they run: resets, accumulation, parameters that are left
out, graphs that stay, the first NaN, layers without gradient, numbers that are too small.

Taps (`torchtap.py`, `owntap.py`, ...) publish what happens as events; parts listen, each for one
kind of mistake. No framework is imported before its taps are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chainrule.verify.observer import Observer
from chainrule.verify.training.accumulation import Accumulation
from chainrule.verify.training.bad import Bad
from chainrule.verify.training.bus import Bus, Part
from chainrule.verify.training.byhand import ByHand
from chainrule.verify.training.clipping import Clipping
from chainrule.verify.training.counted import Counted
from chainrule.verify.training.coverage import Coverage
from chainrule.verify.training.cut import Cut
from chainrule.verify.training.died import Died
from chainrule.verify.training.flow import Flow
from chainrule.verify.training.kept import Kept
from chainrule.verify.training.late import Late
from chainrule.verify.training.modes import Modes
from chainrule.verify.training.opposed import Opposed
from chainrule.verify.training.order import Order
from chainrule.verify.training.passes import Passes
from chainrule.verify.training.precision import Precision
from chainrule.verify.training.redrawn import Redrawn
from chainrule.verify.training.resets import Resets
from chainrule.verify.training.strays import Strays

if TYPE_CHECKING:
    from chainrule.verify.training.owntap import OwnTap
    from chainrule.verify.training.torchtap import TorchTap

__all__ = ["observers", "own_observers"]

_PARTS: Sequence[type[Part]] = (
    Cut, Late, Resets, Strays, Passes, Opposed, ByHand, Accumulation, Order, Modes, Clipping,
    Coverage, Kept, Counted, Flow, Died, Bad, Precision, Redrawn,
)  # fmt: skip
"""Kinds of mistakes, in the order of the report."""


def observers() -> list[Observer]:
    """What looks at a PyTorch training loop; imports torch."""
    return list(torch_parts()[0])


def own_observers() -> list[Observer]:
    """What looks at a training loop of chainrule's own tensors and optimizers."""
    return list(own_parts()[0])


def torch_parts() -> tuple[list[Part], TorchTap]:
    """The parts for PyTorch, and the tap that can be told of what was there before."""
    from chainrule.verify.training.amptap import AmpTap
    from chainrule.verify.training.hooks import Hooks
    from chainrule.verify.training.hooktap import HookTap
    from chainrule.verify.training.moduletap import ModuleTap
    from chainrule.verify.training.optap import OpTap
    from chainrule.verify.training.torchtap import TorchTap

    main = TorchTap()
    hooks = HookTap(main)
    bus = Bus([main, AmpTap(main), ModuleTap(main), OpTap(main), hooks])
    return [*[part(bus) for part in _PARTS], Hooks(bus, hooks)], main


def own_parts() -> tuple[list[Part], OwnTap]:
    """The parts for chainrule, and the tap that can be told of what was there before."""
    from chainrule.verify.training.ownamptap import OwnAmpTap
    from chainrule.verify.training.ownbad import OwnBad
    from chainrule.verify.training.owntap import OwnTap

    main = OwnTap()
    bus = Bus([main, OwnAmpTap(main)])
    return [
        part(bus)
        for part in (
            Cut, Late, Resets, Strays, Passes, Opposed, ByHand, Accumulation, Order, Modes,
            Clipping, Coverage, Kept, OwnBad, Flow, Died, Precision,
        )
    ], main  # fmt: skip
