"""Mistakes of training loops, found while they run: resets, accumulation, parameters that are left
out, graphs that stay, the first NaN, layers without gradient, numbers that are too small.

Taps (`record/`) publish what happens as events; parts listen and collect facts, which rows of
mistakes read (`rules/`). No framework is imported before its taps are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chainrule.verify.observer import Observer
from chainrule.verify.training.record.bus import Bus, Part
from chainrule.verify.training.rules.accumulation import Accumulation
from chainrule.verify.training.rules.clipping import Clipping
from chainrule.verify.training.rules.coverage.observer import Coverage
from chainrule.verify.training.rules.death import Died
from chainrule.verify.training.rules.detached import Cut
from chainrule.verify.training.rules.domains import Domains
from chainrule.verify.training.rules.flow.observer import Flow
from chainrule.verify.training.rules.given import Assigned, Closures
from chainrule.verify.training.rules.kept_graphs import Kept
from chainrule.verify.training.rules.modes import Modes
from chainrule.verify.training.rules.nonfinite import Bad
from chainrule.verify.training.rules.opposed import Opposed
from chainrule.verify.training.rules.owners import Owners
from chainrule.verify.training.rules.passes import Order, Recounted, Wasted
from chainrule.verify.training.rules.precision import Precision
from chainrule.verify.training.rules.resets import ByHand, Resets
from chainrule.verify.training.rules.scales import Scales
from chainrule.verify.training.rules.schedules import Schedules
from chainrule.verify.training.rules.shapes import Shapes

if TYPE_CHECKING:
    from chainrule.verify.training.record.native_loop import OwnTap
    from chainrule.verify.training.record.torch_loop import TorchTap

__all__ = ["observers", "own_observers"]

_PARTS: Sequence[type[Part]] = (
    Cut, Order, Resets, Wasted, Opposed, ByHand, Accumulation, Scales, Modes, Clipping, Coverage,
    Kept, Recounted, Flow, Died, Bad, Precision, Closures, Shapes, Assigned, Domains, Schedules,
    Owners,
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
    from chainrule.verify.training.record.scalers import ScalerTap, torch_library
    from chainrule.verify.training.record.torch_hooks import HookTap
    from chainrule.verify.training.record.torch_loop import TorchTap
    from chainrule.verify.training.record.torch_modules import ModuleTap
    from chainrule.verify.training.record.torch_ops import OpTap
    from chainrule.verify.training.rules.hooks import Hooks

    main = TorchTap()
    hooks = HookTap(main)
    bus = Bus([main, ScalerTap(main, torch_library), ModuleTap(main), OpTap(main), hooks])
    return [*[part(bus) for part in _PARTS], Hooks(bus, hooks)], main


def own_parts() -> tuple[list[Part], OwnTap]:
    """The parts for chainrule, and the tap that can be told of what was there before."""
    from chainrule.verify.training.record.native_loop import OwnTap
    from chainrule.verify.training.record.scalers import ScalerTap, native_library
    from chainrule.verify.training.rules.native_nonfinite import OwnBad

    main = OwnTap()
    bus = Bus([main, ScalerTap(main, native_library)])
    return [
        part(bus)
        for part in (
            Cut, Order, Resets, Wasted, Opposed, ByHand, Accumulation, Scales, Modes,
            Clipping, Coverage, Kept, OwnBad, Flow, Died, Precision, Shapes,
            Domains, Schedules, Owners,
        )
    ], main  # fmt: skip
