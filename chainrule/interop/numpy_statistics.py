"""NumPy's statistics of samples with NaN, and its curves through samples, on tensors.

A reduction that leaves NaN out is the plain one with its neutral number in their place; where there
is nothing else the result is NaN, as in NumPy.
"""

# The arrays of NumPy that these functions take and give have no types of their own here.
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import DtypeError, ShapeError
from chainrule.interop.numpy_rows import A
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing import selection, sorting
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes import arranging, joining, shaping

Axis = int | tuple[int, ...] | None


def _with(number: float) -> Callable[[Any], Any]:
    """A function that puts `number` in place of NaN."""
    return lambda a: selection.where(ew.isnan(a), np.asarray(number, a.dtype), a)


def _nan_where_empty(y: Any, a: Any, axis: Axis, keepdims: bool) -> Any:
    empty = red.all(ew.isnan(a), axis=axis, keepdims=keepdims)
    return selection.where(empty, np.asarray(np.nan, y.dtype), y)


def nanmax(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest element that is not NaN."""
    a = red.floating(a)
    return _nan_where_empty(red.max(_with(-np.inf)(a), axis, keepdims=keepdims), a, axis, keepdims)


def nanmin(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The smallest element that is not NaN."""
    a = red.floating(a)
    return _nan_where_empty(red.min(_with(np.inf)(a), axis, keepdims=keepdims), a, axis, keepdims)


def nanprod(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The product of what is not NaN."""
    return red.prod(_with(1.0)(a), axis, keepdims=keepdims)


def nanvar(a: Any, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """The variance of what is not NaN."""
    a = red.floating(a)
    gaps = ew.isnan(a)
    away = _with(0.0)(a) - arranging.nanmean(a, axis, keepdims=True)
    total = red.sum(selection.where(gaps, 0.0, away) ** 2, axis, keepdims=keepdims)
    count = red.count_nonzero(~gaps, axis=axis, keepdims=keepdims)
    return selection.where(count > ddof, total / ew.maximum(count - ddof, 1), np.nan)


def nanstd(a: Any, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """The standard deviation of what is not NaN."""
    return ew.sqrt(nanvar(a, axis, ddof, keepdims))


def cov(
    m: Any, rowvar: bool = True, bias: bool = False, ddof: int | None = None, aweights: Any = None
) -> Any:
    """Covariances of variables that are rows, or columns if not `rowvar`."""
    m = A(m)
    m = shaping.matrix_transpose(m) if not rowvar and m.ndim == 2 else m
    if aweights is not None and (bias or ddof is not None):
        raise DtypeError("np.cov: aweights with bias or ddof is not supported")
    return arranging.cov(m, correction=1 - bias if ddof is None else ddof, weights=aweights)


def corrcoef(x: Any, rowvar: bool = True) -> Any:
    """Correlations of variables that are rows, or columns if not `rowvar`."""
    x = A(x)
    return arranging.corrcoef(shaping.matrix_transpose(x) if not rowvar and x.ndim == 2 else x)


def polyval(p: Any, x: Any) -> Any:
    """The polynomial with coefficients `p`, the highest power first, at `x`."""
    x = A(x)
    y = shaping.broadcast_to(np.zeros((), x.dtype), x.shape)
    for c in joining.unstack(A(p)):
        y = y * x + c
    return y


def interp(x: Any, xp: Any, fp: Any) -> Any:
    """At `x` the straight lines between the points (xp, fp); beyond them the first and last fp."""
    x, xp, fp = red.floating(A(x)), red.floating(A(xp)), A(fp)
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ShapeError(f"np.interp: xp {xp.shape} and fp {fp.shape} are vectors of one length")
    if xp.size == 1:
        return shaping.broadcast_to(fp, (*x.shape, 1))[..., 0]
    left = sorting.searchsorted(xp[1:-1], x, side="right")
    x0, x1, f0, f1 = [selection.take(v, left + k, axis=0) for v in (xp, fp) for k in (0, 1)]
    return f0 + selection.clip((x - x0) / (x1 - x0), 0, 1) * (f1 - f0)
