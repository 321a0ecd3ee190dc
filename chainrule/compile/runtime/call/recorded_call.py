"""The short way of a call whose results can be differentiated.

Such a call makes a node of the graph, as `Variant.call` does. What is short is the way there: of
arguments that are like those of the call before, nobody asks which variant they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.trace.variant import MISFIT, Variant
from chainrule.engine.graph import is_recording
from chainrule.engine.tensors import Tensor


@final
class RecordedCall:
    """A variant that records a node, and what its arguments were."""

    short = None
    """There is no shorter way; see `Steady`."""

    def __init__(self, variant: Variant, args: Sequence[Any]) -> None:
        self._variant = variant
        self._kinds = [_kind(x) for x in args]

    def call(self, args: tuple[Any, ...]) -> Any:
        """The result, or `MISFIT` if the arguments or the state are not as before."""
        if not is_recording() or [_kind(x) for x in args] != self._kinds:
            return MISFIT
        return self._variant.call(args)


def _kind(x: Any) -> Any:
    """What of an argument the trace depends on."""
    if x.__class__ is Tensor:
        a, node = x.value, x.node
        return a.__class__, a.shape, a.dtype, node is not None and node.needs
    return (x.__class__, x.shape, x.dtype) if x.__class__ is np.ndarray else None


def recorded(variant: Variant, args: Sequence[Any]) -> RecordedCall | None:
    """The short way for further calls like the one that was just made; None if there is none."""
    if variant.op is None or variant.changed or not is_recording():
        return None
    if not all(x.__class__ in (Tensor, np.ndarray) for x in args):
        return None
    return RecordedCall(variant, args)
