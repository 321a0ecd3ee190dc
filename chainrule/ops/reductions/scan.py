"""Running sums, products and extrema along one axis.

What is not linear here is a first-order recurrence h[i] = a[i] h[i-1] + b[i], whose derivative is
a recurrence of the same kind, run backwards. It never divides, so that a running product has the
right derivatives of every order at zeros.

Notation: h the running value; h[-1], before the first, is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import INEXACT, check_real, result_type, rounded_once
from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.errors import DtypeError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.families import Linear, accumulator, sum_to
from chainrule.ops.indexing.selection import take_along_axis
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.shaping import astype, normalize_axis, reshape, roomy
from chainrule.ops.shapes.slices import Slice, Unslice
from chainrule.ops.values.elementary import logaddexp

_WHOLE = (None, None, None)


def _along(axis: int, key: Any) -> Any:
    """A basic index that applies `key` to `axis`, which is counted from the end."""
    return (Ellipsis, key, *[_WHOLE] * (-axis - 1))


def _from_end(axis: int, ndim: int) -> int:
    """`axis` counted from the end, where an op is the same for one example and for many."""
    return normalize_axis(axis, ndim) - ndim


def _shift(x: Any, axis: int, *, back: bool = False) -> Any:
    """x[i-1] at i, and 0 at the first place; with `back` x[i+1] at i, and 0 at the last."""
    head, tail = _along(axis, (None, -1, None)), _along(axis, (1, None, None))
    source, target = (tail, head) if back else (head, tail)
    return apply(Unslice(target, tuple(x.shape)), apply(Slice(source), x))


class CumSum(Linear):
    """The running sum along `axis` (counted from the end), from the last element if `back`."""

    axis: int
    back: bool
    leading = True

    @property
    def name(self) -> str:
        """`cumulative_sum`."""
        return "cumulative_sum"

    def eval(self, *xs: Any) -> Any:
        """In the input's dtype; float16 and bfloat16 are summed in float32."""
        (x,) = xs
        turned = np.flip(x, self.axis) if self.back else x
        wide = accumulator(x.dtype)
        y = np.cumsum(turned, axis=self.axis, dtype=wide).astype(x.dtype, copy=False)
        return np.flip(y, self.axis) if self.back else y

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The running sum in the other direction."""
        return (apply(CumSum(self.axis, not self.back), g),)


class Recurrence(Op):
    """h[i] = a[i] h[i-1] + b[i] along `axis` (counted from the end); a and b broadcast.

    With `back`, h[i] = a[i] h[i+1] + b[i]. One vectorised step for each index along the axis. A
    tree of products could be shallower, but it makes 0 times infinity of a product that overflows
    beside a zero.
    """

    axis: int
    back: bool
    leading = True
    states_jvp = False

    @property
    def name(self) -> str:
        """`recurrence`."""
        return "recurrence"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """A new array."""
        a, b = np.broadcast_arrays(*xs)
        y = np.empty(a.shape, result_type(a, b))
        a, b, h = [np.moveaxis(v, self.axis, 0) for v in (a, b, y)]
        n = len(h)
        places = range(n - 1, -1, -1) if self.back else range(n)
        before: Any = np.zeros((), y.dtype)
        for count, i in enumerate(places):
            h[i] = a[i] * before + b[i] if count else b[i]
            before = h[i]
        return y

    def spec(self, *xs: Any) -> Spec:
        """The broadcast shape, the promoted dtype."""
        a, b = xs
        return Spec(np.broadcast_shapes(a.shape, b.shape), result_type(a.dtype, b.dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """`a`, and for its own gradient the output."""
        return (1,) if i else (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """b_bar[i] = g[i] + a[i+1] b_bar[i+1], and a_bar[i] = b_bar[i] h[i-1]."""
        a, b = xs
        bar = _reverse_recurrence(a, g, self.axis, back=not self.back)
        a_bar = bar * _shift(y, self.axis, back=self.back) if need[0] else None
        return (
            None if a_bar is None else sum_to(a_bar, tuple(a.shape)),
            sum_to(bar, tuple(b.shape)) if need[1] else None,
        )


def _reverse_recurrence(a: Any, g: Any, axis: int, *, back: bool) -> Any:
    """The cotangent of each step: c[i] = g[i] + a[i+1] c[i+1], the transpose of a recurrence."""
    return apply(Recurrence(axis, back), _shift(a, axis, back=back), g)


class CumProd(Op):
    """The running product along `axis` (counted from the end): y[i] = x[i] y[i-1]."""

    axis: int
    leading = True
    states_jvp = False

    @property
    def name(self) -> str:
        """`cumulative_prod`."""
        return "cumulative_prod"

    def eval(self, *xs: Any) -> Any:
        """NumPy's running product, in the input's dtype."""
        multiply: Any = np.multiply
        (x,) = xs
        y = multiply.accumulate(x, axis=self.axis, dtype=accumulator(x.dtype))
        return y.astype(x.dtype, copy=False)

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Output and input."""
        return (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """x_bar[i] = c[i] y[i-1], where c[i] = g[i] + x[i+1] c[i+1] and y[-1] = 1."""
        (x,) = xs
        size = int(x.shape[self.axis])
        first = (np.arange(size) == 0).reshape(size, *[1] * (-self.axis - 1))
        before = _shift(y, self.axis) + first.astype(y.dtype)
        return (_reverse_recurrence(x, g, self.axis, back=True) * before,)


class LogCumSumExp(Op):
    """log of the running sum of exp(x) along `axis` (counted from the end), without overflow."""

    axis: int
    leading = True
    states_jvp = False

    @property
    def name(self) -> str:
        """`logcumsumexp`."""
        return "logcumsumexp"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """One logaddexp after the other."""
        if xs[0].dtype.kind != "c":
            return np.logaddexp.accumulate(xs[0], axis=self.axis)
        y = np.moveaxis(xs[0].copy(), self.axis, 0)
        for i in range(1, len(y)):
            y[i] = logaddexp(y[i - 1], y[i])
        return np.moveaxis(y, 0, self.axis)

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Output and input."""
        return (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """x_bar[i] = c[i] exp(x[i] - y[i]), where c[i] = g[i] + exp(y[i] - y[i+1]) c[i+1].

        Both exponentials are at most 1.
        """
        kept = ew.exp_diff(_shift(y, self.axis), y)  # exp(y[i-1] - y[i]); the first is not used
        return (_reverse_recurrence(kept, g, self.axis, back=True) * ew.exp_diff(xs[0], y),)


class RunningArg(Op):
    """Where along `axis` (counted from the end) the running extremum stands: the first of equals.

    The first NaN stays the extremum.
    """

    largest: bool
    axis: int
    leading = True

    @property
    def name(self) -> str:
        """`cummax` or `cummin`."""
        return "cummax" if self.largest else "cummin"

    def eval(self, *xs: Any) -> Any:
        """Indices, int64."""
        check_real(self.name, xs[0])
        x: Array = np.moveaxis(xs[0], self.axis, -1)
        fn = np.maximum if self.largest else np.minimum
        top = fn.accumulate(x, axis=-1)
        fresh = np.ones(x.shape, bool)
        fresh[..., 1:] = _differs(top[..., 1:], top[..., :-1])
        places: Any = np.arange(int(x.shape[-1]))
        index = np.maximum.accumulate(fresh * places, axis=-1)
        return np.moveaxis(index, -1, self.axis)

    def spec(self, *xs: Any) -> Spec:
        """The input's shape, int64."""
        check_real(self.name, xs[0])
        return Spec(xs[0].shape, np.dtype(np.int64))

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


def _differs(a: Array, b: Array) -> Array:
    """Where a and b are different; a NaN is equal to a NaN."""
    return (a != b) & ~((a != a) & (b != b))


# --- Functions -----------------------------------------------------------------------------------


def cumulative_sum(
    x: Any, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The running sum of `x` along `axis`, which may be left out where there is only one.

    Shapes: (n) -> (n + 1) if include_initial and axis is None;
        (*s, axis: n) -> (*s, axis: n + 1) if include_initial;
        (*s) -> (*s).
    Same shape as `x`; with `include_initial` one longer along the axis, a 0 first. Bools and small
    integers are summed as int64 or uint64, unless a dtype is given.

    >>> cr.cumulative_sum(cr.tensor([1.0, 2.0, 3.0]), include_initial=True)
    tensor([0., 1., 3., 6.], dtype=float32)
    """
    x, axis = _prepare("cumulative_sum", x, axis, dtype)
    return _with_initial(apply(CumSum(axis, False), x), axis, 0, include_initial)


def cumulative_prod(
    x: Any, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The running product of `x` along `axis`, which may be left out where there is only one.

    Shapes: (*s) -> (*s).
    Same shape as `x`; with `include_initial` one longer along the axis, a 1 first. Bools and small
    integers are multiplied as int64 or uint64, unless a dtype is given. Derivatives of every order
    are right at zeros: no division by an element happens.

    >>> cr.cumulative_prod(cr.tensor([1.0, 2.0, 3.0]), include_initial=True)
    tensor([1., 1., 2., 6.], dtype=float32)
    """
    x, axis = _prepare("cumulative_prod", x, axis, dtype)
    return _with_initial(apply(CumProd(axis), x), axis, 1, include_initial)


def _prepare(what: str, x: Any, axis: int | None, dtype: Any) -> tuple[Any, int]:
    """`x` in the dtype of the result, with at least one axis, and the axis from the end."""
    if axis is None and x.ndim > 1:
        raise ShapeError(f"{what}: x {tuple(x.shape)} has {x.ndim} axes; say along which: axis=...")
    if dtype is None and x.dtype.kind in "biu":
        dtype = np.uint64 if x.dtype.kind == "u" else np.int64
    x = x if x.ndim else reshape(x, (1,))
    return (x if dtype is None else astype(x, dtype)), _from_end(
        0 if axis is None else axis, x.ndim
    )


def _with_initial(y: Any, axis: int, value: int, wanted: bool) -> Any:
    if not wanted:
        return y
    shape = list(y.shape)
    shape[axis] = 1
    return concat([np.full(shape, value, y.dtype), y], axis=axis)


def cumsum(x: Any, axis: int | None = None) -> Any:
    """PyTorch's and NumPy's name for `cumulative_sum`; with axis None, of the flat array.

    Shapes: (*s) -> (*s).

    >>> cr.cumsum(cr.tensor([1.0, 2.0, 3.0]))
    tensor([1., 3., 6.], dtype=float32)
    """
    return cumulative_sum(reshape(x, (-1,)) if axis is None else x, axis=axis)


def cumprod(x: Any, axis: int | None = None) -> Any:
    """PyTorch's and NumPy's name for `cumulative_prod`; with axis None, of the flat array.

    Shapes: (*s) -> (*s).

    >>> cr.cumprod(cr.tensor([1.0, 2.0, 3.0]))
    tensor([1., 2., 6.], dtype=float32)
    """
    return cumulative_prod(reshape(x, (-1,)) if axis is None else x, axis=axis)


@roomy
def logcumsumexp(x: Any, axis: int) -> Any:
    """log of the running sum of exp(x) along `axis`, without overflow.

    Shapes: (*s) -> (*s).
    Floats in, real or complex, the same shape and dtype out; -inf, with gradient 0, as long as all
    are -inf.

    >>> cr.logcumsumexp(cr.tensor([0.0, 0.0]), 0)
    tensor([0.       , 0.6931472], dtype=float32)
    """
    if x.dtype.kind not in INEXACT:
        raise DtypeError(f"logcumsumexp: needs floats, not {x.dtype}")
    return apply(LogCumSumExp(_from_end(axis, x.ndim)), x)


def cummax(x: Any, axis: int) -> tuple[Any, Any]:
    """(values, indices): the running maximum along `axis` and where it stands (int64).

    Shapes: (*s) -> (*s), (*s).
    Both have the shape of `x`. Of equal elements the first counts, and gets the gradient. From the
    first NaN on, the result is NaN.

    >>> cr.cummax(cr.tensor([1.0, 3.0, 2.0]), 0)
    (tensor([1., 3., 3.], dtype=float32), tensor([0, 1, 1], dtype=int64))
    """
    return _running(True, x, axis)


def cummin(x: Any, axis: int) -> tuple[Any, Any]:
    """(values, indices): the running minimum along `axis` and where it stands (int64).

    Shapes: (*s) -> (*s), (*s).
    Both have the shape of `x`. Of equal elements the first counts, and gets the gradient. From the
    first NaN on, the result is NaN.

    >>> cr.cummin(cr.tensor([3.0, 1.0, 2.0]), 0)
    (tensor([3., 1., 1.], dtype=float32), tensor([0, 1, 1], dtype=int64))
    """
    return _running(False, x, axis)


def _running(largest: bool, x: Any, axis: int) -> tuple[Any, Any]:
    place = _from_end(axis, x.ndim)
    index = apply(RunningArg(largest, place), x)
    return take_along_axis(x, index, axis=place), index
