"""Whether composites run as kernels: who is handed ops, which arrays have kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import float32, float64
from chainrule.engine.graph import around
from chainrule.ops.axis_letters import sizes_of_letters
from chainrule.ops.eager_kernels import has_kernels, is_on


class PassesOn:
    """Who is handed ops (see `graph.intercept_ops`) and lets each be applied as it is: composites
    are ops for those, too."""


def fuses() -> bool:
    """Whether composites run as kernels here: nobody is to see their parts."""
    outer = around.get()
    while outer is not None:
        f, outer = outer
        if not isinstance(f, PassesOn):
            return False
    return is_on() and has_kernels()


def of_dtype(x: Any, number: Any) -> Any:
    """A number that a composite computes with, as an array of the dtype of x: one kernel is for all
    numbers, which may change from step to step."""
    dtype = getattr(x, "dtype", None)
    if dtype is None or dtype not in (float32, float64) or not isinstance(number, int | float):
        return number
    return np.asarray(number, dtype)


def are_kernel_arrays(letters: Sequence[str], arrays: Sequence[Any]) -> bool:
    """Whether these are arrays of dtypes that have kernels, whose sizes agree."""
    if any(a.__class__ is not np.ndarray for a in arrays):
        return False
    # of another byte order, arrays are turned round on the way to an op
    inexact = {a.dtype.newbyteorder("=") for a in arrays if a.dtype.kind not in "iub"}
    if len(inexact) != 1 or not inexact <= {float32, float64}:
        return False
    sizes = sizes_of_letters(letters, [a.shape for a in arrays])
    return sizes is not None and all(math.prod(s) for s in sizes.values())
