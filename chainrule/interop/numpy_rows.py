"""NumPy's functions that are more than one of ours: their differences in shape and argument.

Each has NumPy's parameter names, as far as they are supported, and stands in a row of
`numpy_table`. Array arguments are tensors or arrays; `A` makes one of a list or a number.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.arrays import operand
from chainrule.engine.dtypes import INEXACT, result_type
from chainrule.engine.graph import Variable
from chainrule.engine.tensors import Tensor, asarray, holds_tensors
from chainrule.errors import DtypeError, ShapeError
from chainrule.interop import standard
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing import index_arrays, scattering, selection, sorting
from chainrule.ops.reductions import reduction as red
from chainrule.ops.reductions import scan, variances
from chainrule.ops.shapes import joining, padding, shaping
from chainrule.ops.shapes.shaping import Axis
from chainrule.ops.special import table as special


def A(x: Any) -> Any:  # noqa: N802 (short, because the table is full of it)
    """`x` if it is a tensor or an array, otherwise an array (of tensors in lists: a tensor)."""
    return x if isinstance(x, Variable | np.ndarray) else array(x)


def axes(axis: Any) -> Any:
    """One axis, or several as a tuple."""
    return tuple(axis) if isinstance(axis, list) else axis


# --- Moving elements -----------------------------------------------------------------------------


def move(fn: Any) -> Callable[..., Any]:
    """`fn`, which moves elements: run on their numbers, it says which element comes where."""

    def rearrange(x: Any, *args: Any, **kwargs: Any) -> Any:
        flat = shaping.flatten(A(x))
        numbers = np.arange(flat.shape[0]).reshape(x.shape)
        found = fn(numbers, *args, **kwargs)
        if isinstance(found, np.ndarray | np.generic):
            return selection.take(flat, found, axis=0)
        return type(found)([selection.take(flat, part, axis=0) for part in found])

    return rearrange


def join(fn: Any) -> Callable[..., Any]:
    """The same for `fn` of the arrays in a nested list."""

    def join_arrays(arrays: Any) -> Any:
        flat: list[Any] = []
        numbers = _number_elements(arrays, flat)
        return selection.take(joining.concat(flat, axis=0), fn(numbers), axis=0)

    return join_arrays


def _number_elements(tree: Any, flat: list[Any]) -> Any:
    """Nested lists with elements replaced by their numbers; the arrays, flat, go to `flat`."""
    if isinstance(tree, list | tuple):
        return [_number_elements(x, flat) for x in cast(Sequence[Any], tree)]
    x = A(tree)
    start = sum([part.shape[0] for part in flat])
    flat.append(shaping.flatten(x))
    return np.arange(start, start + math.prod(x.shape)).reshape(x.shape)


def reshape(a: Any, shape: Any, order: str = "C") -> Any:
    """By rows ("C", also for "A" and "K"), or by columns ("F")."""
    if order == "F":
        return move(np.reshape)(a, shape, order="F")
    return shaping.reshape(a, shape)


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """`concat`, in `dtype` if one is given; a tensor counts as the sequence of its rows."""
    joined = joining.concat([A(x) for x in arrays], axis=axis)
    return joined if dtype is None else shaping.astype(joined, dtype)


def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """With one constant, or with the array's own elements."""
    if isinstance(constant_values, list | tuple | np.ndarray | Variable):
        raise DtypeError("np.pad of a tensor: constant_values must be one number")
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    return padding.pad(array, [tuple(w) for w in widths], constant_values, mode=mode)


def array(object: Any, dtype: Any = None) -> Any:
    """Nested lists of tensors, arrays and numbers as one tensor, in the graphs of its parts."""
    whole = isinstance(object, Variable) or holds_tensors(object)
    made: Any = asarray(object) if whole else np.asarray(operand(object))
    return made if dtype is None else shaping.astype(made, dtype)


# --- Reductions ----------------------------------------------------------------------------------


def var(
    a: Any, axis: Axis = None, ddof: float = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    """The variance; `correction` is the Array API's word for `ddof`."""
    freedom = ddof if correction is None else correction
    return variances.var(a, axis=axis, correction=freedom, keepdims=keepdims)


def std(
    a: Any, axis: Axis = None, ddof: float = 0, keepdims: bool = False, correction: Any = None
) -> Any:
    """The standard deviation; its gradient where all elements are equal is 0."""
    freedom = ddof if correction is None else correction
    return variances.std(a, axis=axis, correction=freedom, keepdims=keepdims)


@shaping.roomy
def average(a: Any, axis: Axis = None, weights: Any = None, keepdims: bool = False) -> Any:
    """The mean, weighted; weights of one axis run along `axis`."""
    if weights is None:
        return red.mean(a, axis=axis, keepdims=keepdims)
    w = A(weights)
    if w.ndim == 1 and isinstance(axis, int):
        w = shaping.reshape(w, [-1 if i == axis % a.ndim else 1 for i in range(a.ndim)])
    elif tuple(w.shape) != tuple(a.shape):
        raise ShapeError(f"np.average: weights {w.shape} fit neither {a.shape} nor its axis {axis}")
    w = shaping.broadcast_to(w, a.shape)
    total = red.sum(w, axis=axis, keepdims=keepdims)
    return red.sum(A(a) * w, axis=axis, keepdims=keepdims) / total


def median(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The mean of the two in the middle; NaN of no elements."""
    if 0 in [a.shape[i] for i in shaping.normalize_axes(axis, a.ndim)]:
        return red.mean(a, axis=axis, keepdims=keepdims)
    return quantile(a, 0.5, axis, keepdims)


def quantile(a: Any, q: Any, axis: Axis, keepdims: bool) -> Any:
    """Linear between elements, over one axis or several; of whole numbers in float64."""
    a = a if a.dtype.kind in INEXACT else shaping.astype(a, np.float64)
    if not isinstance(axis, tuple):
        return sorting.quantile(a, q, axis=axis, keepdims=keepdims)
    over = shaping.normalize_axes(axis, a.ndim)
    last = shaping.moveaxis(a, over, tuple(range(-len(over), 0)))
    rest = tuple(last.shape[: a.ndim - len(over)])
    y = sorting.quantile(shaping.reshape(last, (*rest, math.prod(a.shape[i] for i in over))), q, -1)
    if not keepdims:
        return y
    kept = [1 if i in over else n for i, n in enumerate(a.shape)]
    return shaping.reshape(y, (*y.shape[: y.ndim - len(rest)], *kept))


def without_nan(a: Any) -> Any:
    """0 in place of NaN."""
    return selection.where(ew.isnan(a), np.zeros((), a.dtype), a)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral of `y` along `axis` by the trapezoidal rule."""
    y = shaping.moveaxis(red.floating(A(y)), axis, -1)
    mid = (y[..., 1:] + y[..., :-1]) / 2
    if x is None:
        return red.sum(mid * dx, axis=-1)
    x = A(x)
    step = scattering.diff(x if x.ndim == 1 else shaping.moveaxis(x, axis, -1), axis=-1)
    return red.sum(mid * step, axis=-1)


def gradient(f: Any, *spacing: float, axis: Any = None) -> Any:
    """Central differences along each of `axis`, one-sided at the ends; a list where several.

    `spacing` is one number for all axes, or one for each.
    """
    f = red.floating(f)
    places = [*range(f.ndim)] if axis is None else list(np.atleast_1d(axis))
    steps = spacing * len(places) if len(spacing) == 1 else spacing or (1.0,) * len(places)
    if len(steps) != len(places) or any(np.ndim(h) for h in steps):
        raise DtypeError("np.gradient of a tensor: spacing is one number, or one for each axis")
    slopes = [_slope(f, int(a), h) for a, h in zip(places, steps, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _slope(f: Any, axis: int, h: float) -> Any:
    x = shaping.moveaxis(f, axis, 0)
    inside = (x[2:] - x[:-2]) / (2 * h)
    ends = [(x[1:2] - x[:1]) / h, (x[-1:] - x[-2:-1]) / h]
    return shaping.moveaxis(joining.concat([ends[0], inside, ends[1]], axis=0), 0, axis)


# --- Choosing and elements -----------------------------------------------------------------------


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """The choice; with the condition alone, where it holds."""
    if x is None and y is None:
        return index_arrays.nonzero(condition)
    return selection.where(A(condition), x, y)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """The choice of the first condition that holds."""
    result = default
    for condition, choice in reversed([*zip(condlist, choicelist, strict=True)]):
        result = selection.where(A(condition), choice, result)
    return result


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """Bounds under either of their names."""
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    return selection.clip(A(a), low, high)


def sort(a: Any, axis: int | None) -> Any:
    """Along one axis, or of the flat array."""
    return sorting.sort(shaping.flatten(a)) if axis is None else sorting.sort(a, axis=axis)


def partition(a: Any, kth: Any, axis: int | None) -> Any:
    """Elements before and after the `kth` smallest, as NumPy puts them."""
    if axis is None:
        a, axis = shaping.flatten(a), -1
    index = np.argpartition(a.detach().numpy(), kth, axis=axis)
    return selection.take_along_axis(a, index, axis=axis)


def round(a: Any, decimals: int = 0) -> Any:
    """To a number of decimals."""
    return standard.round(a, decimals=decimals)


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 with derivative 0 at 0."""
    zero = x == 0
    safe = math.pi * selection.where(zero, 1.0, x)
    return selection.where(zero, 1.0, ew.sin(safe) / safe)


def nan_to_num(x: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Numbers in place of NaN and the infinities, by default 0 and the largest ones."""
    return special.nan_to_num(x, nan, posinf, neginf)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Any:
    """`p` with steps larger than `discont`, by default half a period, moved by whole periods. Which
    periods is constant almost everywhere, so the derivative by each element is 1."""
    x = A(p)
    step = scattering.diff(x, axis=axis)
    step = step.detach() if isinstance(step, Tensor) else step
    whole = x.dtype.kind in "iu" and isinstance(period, int)
    half = period // 2 if whole else period / 2
    moved = ew.remainder(step + half, period) - half
    if not whole or period % 2 == 0:  # half a period up stays up
        moved = selection.where(ew.logical_and(moved == -half, step > 0), half, moved)
    least = period / 2 if discont is None else discont
    turns = selection.where(ew.abs(step) < least, 0, moved - step)
    lead = min(x.shape[axis], 1)
    first, rest = joining.split(x, [lead, x.shape[axis] - lead], axis)
    return joining.concat([first, rest + scan.cumsum(turns, axis)], axis)


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, axis: int = 0) -> Any:
    """From tensor to tensor, along a new first axis."""
    if axis != 0:
        raise DtypeError("np.linspace of tensors: axis must be 0")
    start, stop = shaping.broadcast_arrays(A(start), A(stop))
    steps = num - 1 if endpoint else num
    dtype = result_type(start, stop, 1.0)
    share = np.arange(num).reshape(-1, *[1] * start.ndim) / max(steps, 1)
    return shaping.astype(start * (1 - share) + stop * share, dtype)
