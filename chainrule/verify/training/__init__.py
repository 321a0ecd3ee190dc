"""Mistakes of training loops, found while they run: resets, accumulation, parameters that are left
out, graphs that stay, the first NaN, layers without gradient, numbers that are too small.

Taps (`torchtap.py`, `owntap.py`) publish what happens as events; parts listen, each for one kind of
mistake. Nothing is imported before a tap is put in place.
"""

from __future__ import annotations

from chainrule.verify.observer import Observer
from chainrule.verify.training.accumulation import Accumulation
from chainrule.verify.training.bad import Bad
from chainrule.verify.training.bus import Bus
from chainrule.verify.training.byhand import ByHand
from chainrule.verify.training.coverage import Coverage
from chainrule.verify.training.cut import Cut
from chainrule.verify.training.flow import Flow
from chainrule.verify.training.kept import Kept
from chainrule.verify.training.order import Order
from chainrule.verify.training.precision import Precision
from chainrule.verify.training.resets import Resets

_PARTS = (Cut, Resets, ByHand, Accumulation, Order, Coverage, Kept, Bad, Flow, Precision)
"""Kinds of mistakes, in the order of the report."""

__all__ = ["observers"]


def observers() -> list[Observer]:
    """What looks at a PyTorch training loop; torch is imported when the first of them starts."""
    from chainrule.verify.training.amptap import AmpTap
    from chainrule.verify.training.optap import OpTap
    from chainrule.verify.training.torchtap import TorchTap

    main = TorchTap()
    bus = Bus([main, AmpTap(main), OpTap(main)])
    return [part(bus) for part in _PARTS]
