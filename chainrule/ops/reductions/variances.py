"""The variance and its root, computed from the differences to the mean."""

from __future__ import annotations

import math
from typing import Any

from chainrule.ops.complex import squared_size
from chainrule.ops.reductions.norms import norm
from chainrule.ops.reductions.reduction import element_count, mean, sum
from chainrule.ops.shapes.shaping import (
    Axis,
    roomy,
)


@roomy
def var(x: Any, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance over `axis`: the sum of squared deviations divided by (count - correction).

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).
    Of complex numbers the squared absolute deviations, a real number. Where the correction is not
    below the count the sum is divided by 0, as in NumPy: infinity, or NaN if nothing deviates.

    >>> cr.var(cr.tensor([1.0, 3.0])), cr.var(cr.tensor([1.0, 3.0]), correction=1)
    (tensor(1., dtype=float32), tensor(2., dtype=float32))
    """
    far = x - mean(x, axis=axis, keepdims=True)
    return sum(squared_size(far), axis=axis, keepdims=keepdims) / _freedom(x, axis, correction)


def _freedom(x: Any, axis: Axis, correction: float) -> float:
    left = element_count(x, axis) - correction
    return left if left > 0 else 0.0


@roomy
def std(x: Any, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The root of the variance over `axis`; its gradient where all elements are equal is 0.

    Shapes: (*s, axis: n) -> (*s, axis: 1) if keepdims; (*s, axis: n) -> (*s).

    >>> cr.std(cr.tensor([1.0, 3.0]), correction=1)
    tensor(1.4142135, dtype=float32)
    """
    centered = x - mean(x, axis=axis, keepdims=True)
    length = norm(centered, axis=axis, keepdims=keepdims)
    return length / math.sqrt(_freedom(x, axis, correction))
