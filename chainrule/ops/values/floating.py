"""How values of rows that are formulas are computed: in which dtype, in blocks, or by a kernel."""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real, float64, rounded_once
from chainrule.ops import eager_kernels

_COMPLEX = {
    *("sigmoid", "logistic_density", "sech_square", "exp_product"),
    *("atan_slope", "log1p_slope", "logaddexp", "sigmoid_diff"),
}
"""Functions that take complex numbers; the others read |x| or an order and refuse them."""
_BLOCK = 1 << 16
"""Bytes of which several passes stay in the processor's cache."""

Fn = Callable[..., Any]


def floating(fn: Fn) -> Fn:
    """`fn`, the value of the row of that name, of arrays of one dtype of floats, with an axis at
    least: float16 and bfloat16 are computed in float32, integers in float64. Many elements are
    computed by a kernel, or where there is none in blocks."""
    several = rounded_once(lambda *xs: _alike(fn, xs))
    label = fn.__name__
    calls = eager_kernels.Calls(partial(eager_kernels.row_kernel, label), 1)
    latest = calls.latest.get

    @wraps(fn)
    def wrapper(*xs: Any) -> Any:
        x = xs[0]
        if x.__class__ is np.ndarray and (run := latest(x.shape)) and (made := run(xs)):
            return made[0]
        plain = len(xs) == 1 and x.__class__ is np.ndarray and x.dtype.char in "fd" and x.ndim
        if not plain:
            return several(*xs)
        if not x.size:
            return x.copy()  # only its dtype is asked for: SciPy need not be loaded for that
        if x.size < eager_kernels.LEAST:
            return fn(x)
        if eager_kernels.has_kernels() and eager_kernels.is_value(wrapper, label):
            return calls.run(xs)
        return _in_blocks(fn, np.ascontiguousarray(x))

    eager_kernels.by_kernels.add(wrapper)
    return wrapper


def _alike(fn: Fn, xs: Sequence[Any]) -> Any:
    dtype = np.result_type(*xs)
    if fn.__name__ not in _COMPLEX:
        check_real(fn.__name__, *xs)
    if dtype.kind in "biu":
        dtype = float64
    arrays = [np.asarray(x, dtype) for x in xs]
    y = fn(*[x if x.ndim else x.reshape(1) for x in arrays])
    return y if any(x.ndim for x in arrays) else y[0]


def _in_blocks(fn: Fn, x: Any) -> Any:
    out = np.empty_like(x)
    flat, y = x.reshape(-1), out.reshape(-1)
    step = _BLOCK // x.itemsize
    for i in range(0, flat.size, step):
        y[i : i + step] = fn(flat[i : i + step])
    return out
