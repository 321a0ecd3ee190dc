"""Matrix products with a matrix of which each row is a part of one array, from an offset on.

A convolution is such a product: what a kernel place sees of a padded array is that array itself,
some elements further on. No matrix is copied together. The offsets are data, so one kernel serves
all sizes, strides, dilations and dimensions (M. Dukhan, The Indirect Convolution Algorithm, 2019).

Notation: p an array of one axis; G groups, K terms of a sum, T runs of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from chainrule.engine.dtypes import Dtype
from chainrule.engine.graph import apply
from chainrule.engine.op import Op, Spec
from chainrule.ops.eager_kernels import Kernel, Run, Shape, maker
from chainrule.ops.shapes.shaping import reshape

ROWS = 8
"""Rows of a tile of results: it stays in registers."""
FEW_ROWS = (1, 2, 4)
"""Rows of a tile where there are no more: each group of channels may have one channel only."""
BYTES = 128
"""Bytes along a tile of results: two of the longest registers."""
_INT = np.dtype(np.int64)
_DIGITS = {8: "8", 16: "28", 32: "48"}
"""An axis of so many elements as letters; see `chainrule.ops.axis_letters`."""


class _Shifted(Op):
    """One of the three; they have no derivatives, since those of a convolution are convolutions."""

    width: int
    """Elements along a tile of results."""

    def reads(self, i: int) -> None:
        """No gradient flows."""
        return


class ShiftedProduct(_Shifted):
    """(p (S), w (G, B, K, R), offset (G, K), start (T)) -> y (G, B, R, T, width):
    y[g, b, r, t, j] is the sum over k of w[g, b, k, r] p[offset[g, k] + start[t] + j]."""

    @property
    def name(self) -> str:
        """`shifted_product`."""
        return "shifted_product"

    def eval(self, *xs: Any) -> Any:
        """One product of matrices for each group, of copies."""
        p, w, offset, start = xs
        at: Any = offset[:, :, None, None] + start[:, None] + np.arange(self.width)
        seen = p[at].reshape(*offset.shape, -1)
        return (w.swapaxes(2, 3) @ seen[:, None]).reshape(self.spec(*xs).shape)

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the dtype of p."""
        p, w, _, start = xs
        groups, blocks, _, rows = w.shape
        return Spec((groups, blocks, rows, start.shape[0], self.width), p.dtype)


class ShiftedSum(_Shifted):
    """(p (S), v (G, B, T, Q, width), offset (G, K, R), start (T)) -> y (G, B, K, R, width):
    y[g, b, k, r, j] is the sum over t and q of p[offset[g, k, r] + start[t] + q] v[g, b, t, q, j].
    """

    @property
    def name(self) -> str:
        """`shifted_sum`."""
        return "shifted_sum"

    def eval(self, *xs: Any) -> Any:
        """One product of matrices for each group, of copies."""
        p, v, offset, start = xs
        groups, blocks, runs, places, _ = v.shape
        at: Any = offset[..., None, None] + start[:, None] + np.arange(int(places))
        seen = p[at].reshape(groups, 1, -1, runs * places)
        return (seen @ v.reshape(groups, blocks, -1, self.width)).reshape(self.spec(*xs).shape)

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the dtype of p."""
        p, v, offset, _ = xs
        return Spec((*v.shape[:2], *offset.shape[1:], self.width), p.dtype)


class Turned(_Shifted):
    """(x (N, C, width, L)) -> y (C, N, L, width): rows and columns change places."""

    @property
    def name(self) -> str:
        """`turned`."""
        return "turned"

    def eval(self, *xs: Any) -> Any:
        """A copy."""
        return np.ascontiguousarray(xs[0].transpose(1, 0, 3, 2))

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the dtype of x."""
        count, channels, width, places = xs[0].shape
        return Spec((channels, count, places, width), xs[0].dtype)


# --- Their kernels -------------------------------------------------------------------------------


def tile_rows(rows: int) -> int:
    """How many rows a tile has: no more than are there, if possible."""
    return next((n for n in FEW_ROWS if rows <= n), ROWS)


def tile_width(dtype: Dtype, rows: int = ROWS) -> int:
    """Elements along a full tile of so many rows: what is done once for a tile counts less where
    it is wide."""
    return (2 if rows < 4 else 1) * BYTES // dtype.itemsize


@cache
def _product_kernel(dtype: Dtype, rows: int) -> Kernel:
    op = ShiftedProduct(tile_width(dtype, rows))
    letters = ["S", f"GBK{rows}", "GK", "T"]
    return _kernel(op, lambda xs: apply(op, *xs), letters, dtype)


@cache
def _sum_kernel(dtype: Dtype, width: int) -> Kernel:
    op = ShiftedSum(width)
    letters = ["S", f"GBTQ{_DIGITS[width]}", f"GK{ROWS}", "T"]

    def f(xs: Sequence[Any]) -> Any:
        p, v, *places = xs
        return apply(op, p, reshape(v, (*v.shape[:4], width)), *places)

    return _kernel(op, f, letters, dtype)


@cache
def _turning_kernel(dtype: Dtype, width: int) -> Kernel:
    digits = _DIGITS[width]

    def f(xs: Sequence[Any]) -> Any:
        count, channels, *_, places = xs[0].shape
        return apply(Turned(width), reshape(xs[0], (count, channels, width, places)))

    return maker()(f"turned by {width}", f, [f"NC{digits}L"], [dtype])


def _kernel(
    op: _Shifted, f: Callable[[Sequence[Any]], Any], letters: Sequence[str], dtype: Dtype
) -> Kernel:
    return maker()(f"{op.name} {op.width} {letters[1]}", f, letters, [dtype, dtype, _INT, _INT])


@lru_cache(maxsize=4096)
def turning_call(dtype: Dtype, x: Shape) -> Run:
    """What copies an array (N, C, width, L) to (C, N, L, width)."""
    count, channels, width, places = x
    split = (count, channels, *map(int, _DIGITS[width]), places)
    return _turning_kernel(dtype, width).at([split], [(channels, count, places, width)])


@lru_cache(maxsize=4096)
def product_call(dtype: Dtype, p: Shape, w: Shape, starts: int) -> Run:
    """What runs a `ShiftedProduct` on arrays of these sizes."""
    groups, blocks, terms, rows = w
    result = (groups, blocks, rows, starts, tile_width(dtype, rows))
    return _product_kernel(dtype, rows).at([p, w, (groups, terms), (starts,)], [result])


@lru_cache(maxsize=4096)
def sum_call(dtype: Dtype, p: Shape, v: Shape, offset: Shape) -> Run:
    """What runs a `ShiftedSum` on arrays of these sizes."""
    *sizes, width = v
    split = (*sizes, *map(int, _DIGITS[width]))
    result = (*v[:2], *offset[1:], width)
    return _sum_kernel(dtype, width).at([p, split, offset, (v[2],)], [result])
