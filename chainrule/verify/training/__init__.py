"""Mistakes of training loops, found while they run: resets, accumulation, parameters that are left
out, graphs that stay, the first NaN, layers without gradient, numbers that are too small.

Taps (`record/`) publish what happens as events; parts listen and collect facts, which rows of
mistakes read (`rules/`). No framework is imported before its taps are made.
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.observer import Observer
from chainrule.verify.training.record.bus import Bus, Part
from chainrule.verify.training.rules.accumulation import Accumulation
from chainrule.verify.training.rules.clipping import Clipping, Scales
from chainrule.verify.training.rules.closures import Closures
from chainrule.verify.training.rules.coverage.observer import Coverage
from chainrule.verify.training.rules.detached_losses import Cut
from chainrule.verify.training.rules.flow import Flow
from chainrule.verify.training.rules.graphs.kept_graphs import Kept
from chainrule.verify.training.rules.graphs.recounted_losses import Recounted
from chainrule.verify.training.rules.loss_domains import Domains
from chainrule.verify.training.rules.memory_owners import Owners
from chainrule.verify.training.rules.modes import Modes
from chainrule.verify.training.rules.nonfinite import Bad
from chainrule.verify.training.rules.opposed_losses import Opposed
from chainrule.verify.training.rules.passes import Order, Wasted
from chainrule.verify.training.rules.rates import Rates
from chainrule.verify.training.rules.resets import ByHand, Resets
from chainrule.verify.training.rules.schedules import Schedules
from chainrule.verify.training.rules.sequences.masks import Masks
from chainrule.verify.training.rules.sequences.states import States
from chainrule.verify.training.rules.shapes import Shapes
from chainrule.verify.training.rules.weights.alike_parameters import Alike
from chainrule.verify.training.rules.weights.averages import Averages
from chainrule.verify.training.rules.weights.moves import Moves

_PARTS: Sequence[type[Part]] = (
    Cut, Order, Resets, Wasted, Opposed, ByHand, Accumulation, Scales, Modes, Clipping, Coverage,
    Kept, Recounted, Flow, Bad, Closures, Shapes, Domains, Schedules,
    Rates, Owners, Moves, Alike, Averages, Masks, States,
)  # fmt: skip
"""Kinds of mistakes, in the order of the report."""
_TORCH_ONLY = (Recounted, Bad, Closures, Masks, States)
"""Those that chainrule's programs cannot make."""


def observers() -> list[Observer]:
    """What looks at a PyTorch training loop; imports torch."""
    return list(torch_parts(torch_bus()))


def torch_bus() -> Bus:
    """Events of PyTorch's loops; the first tap can be told of what was there before."""
    from chainrule.verify.training.record.scalers import ScalerTap
    from chainrule.verify.training.record.torch_loop import ModuleTap, TorchTap
    from chainrule.verify.training.record.torch_ops import OpTap

    main = TorchTap()
    return Bus([main, ScalerTap(main), ModuleTap(main), OpTap(main)])


def torch_parts(bus: Bus) -> list[Part]:
    """The parts for PyTorch."""
    return [part(bus) for part in _PARTS]


def native_bus() -> Bus:
    """Events of chainrule's loops; the first tap can be told of what was there before."""
    from chainrule.verify.training.record.native_loop import NativeTap
    from chainrule.verify.training.record.scalers import ScalerTap

    main = NativeTap()
    return Bus([main, ScalerTap(main)])


def native_parts(bus: Bus) -> list[Part]:
    """The parts for chainrule."""
    return [part(bus) for part in _PARTS if part not in _TORCH_ONLY]
