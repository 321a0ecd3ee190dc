"""Arrays compared up to rounding, and the step function."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.selection import where
from chainrule.ops.reductions import reduction as red


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Where |a - b| <= atol + rtol |b|: bools. Infinities are close to themselves alone.

    Shapes: (...), (...) -> (...).
    Either may be a number. NaN is close to nothing, with `equal_nan` to NaN.

    >>> cr.isclose(cr.tensor([1.0, 2.0]), cr.tensor([1.0, 2.1]))
    tensor([ True, False], dtype=bool)
    """
    a, b = [red.floating(x) if hasattr(x, "dtype") else x for x in (a, b)]
    near = ew.less_equal(ew.abs(a - b), atol + rtol * ew.abs(b))
    close = ew.logical_or(ew.equal(a, b), ew.logical_and(near, ew.isfinite(b)))
    return ew.logical_or(close, ew.logical_and(ew.isnan(a), ew.isnan(b))) if equal_nan else close


def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether `isclose` holds everywhere: one bool of Python's, so not inside `jit`.

    Shapes: (...), (...) -> ().

    >>> cr.allclose(cr.tensor([1.0, 2.0]), cr.tensor([1.0, 2.000001]))
    True
    """
    return bool(red.all(isclose(a, b, rtol, atol, equal_nan)))


def heaviside(x: Any, values: Any) -> Any:
    """0 where `x` is negative or NaN, 1 where it is positive, `values` where it is 0.

    Shapes: (...), (...) -> (...).

    >>> cr.heaviside(cr.tensor([-1.0, 0.0, 1.0]), cr.tensor(0.5))
    tensor([0. , 0.5, 1. ], dtype=float32)
    """
    one = np.ones((), x.dtype)
    return where(x == 0, values, where(x > 0, one, 0 * one))
