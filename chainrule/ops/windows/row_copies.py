"""Copies of rows that begin where tables say: into padded runs, and out of what products gave.

A kernel for all sizes, strides and dimensions copies rows, since where they begin is data. NumPy
takes longer for each short row than for what is in it. See `padded_runs.py`.

Notation: N examples, C channels, L elements of an image, R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from chainrule.engine.dtypes import Dtype
from chainrule.engine.graph import apply
from chainrule.engine.op import Op, Spec
from chainrule.ops.eager_kernels import Kernel, Run, maker
from chainrule.ops.shapes.shaping import Shape

_INT, _SHORT = np.dtype(np.int64), np.dtype(np.int32)


class RowCopy(Op):
    """One of the two; they have no derivatives, since those of a convolution are convolutions."""

    def reads(self, i: int) -> None:
        """No gradient flows."""
        return


class PaddedRows(RowCopy):
    """(x (N, C, L), first (Q, R), low (Q, R), high (Q, R), room (P)) -> y (C, Q, R, P):
    y[c, q, r, j] is element first[q, r] + step j after the beginning of x[0, c] if
    low[q, r] <= j < high[q, r], and 0 otherwise."""

    step: int

    @property
    def name(self) -> str:
        """`padded_rows`."""
        return "padded_rows"

    def eval(self, *xs: Any) -> Any:
        """A gather."""
        x, first, low, high, room = xs
        j = np.arange(len(room))
        seen = (low[..., None] <= j) & (j < high[..., None])
        at: Any = np.where(seen, first[..., None] + self.step * j, 0)
        channel: Any = np.arange(int(x.shape[1]))[:, None, None, None] * x.shape[2]
        return np.where(seen, x.reshape(-1)[np.where(seen, channel + at, 0)], 0).astype(x.dtype)

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the dtype of x."""
        x, first, _, _, room = xs
        return Spec((x.shape[1], *first.shape, room.shape[0]), x.dtype)


class WindowRows(RowCopy):
    """(t (G, H, M), start (N, R), room (O, P)) -> y (N, G, O, R, P):
    y[n, g, o, r, j] is t[g, o, start[n, r] + j]. O is at most H."""

    @property
    def name(self) -> str:
        """`window_rows`."""
        return "window_rows"

    def eval(self, *xs: Any) -> Any:
        """A gather."""
        t, start, room = xs
        at: Any = start[..., None] + np.arange(int(room.shape[1]))
        return np.moveaxis(t[:, : room.shape[0]][:, :, at], 2, 0)

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the dtype of t."""
        t, start, room = xs
        n, rows = start.shape
        return Spec((n, t.shape[0], room.shape[0], rows, room.shape[1]), t.dtype)


# --- Their kernels -------------------------------------------------------------------------------


@cache
def _padding_kernel(dtype: Dtype, step: int) -> Kernel:
    return _kernel(
        f"padded_rows {step}",
        PaddedRows(step),
        ["NCL", "QR", "QR", "QR", "P"],
        [dtype, _INT, _SHORT, _SHORT, _INT],
    )


@cache
def _window_kernel(dtype: Dtype) -> Kernel:
    return _kernel("window_rows", WindowRows(), ["GHM", "NR", "OP"], [dtype, _INT, _INT])


def _kernel(name: str, op: RowCopy, letters: Sequence[str], dtypes: Sequence[Dtype]) -> Kernel:
    return maker()(name, lambda xs: apply(op, *xs), letters, dtypes)


@lru_cache(maxsize=4096)
def padding_call(dtype: Dtype, step: int, x: Shape, rows: Shape, length: int) -> Run:
    """What runs `PaddedRows` on x (N, C, L) for rows (Q, R) of that length."""
    shapes = [x, rows, rows, rows, (length,)]
    return _padding_kernel(dtype, step).at(shapes, [(x[1], *rows, length)])


@lru_cache(maxsize=4096)
def window_call(dtype: Dtype, t: Shape, start: Shape, room: Shape) -> Run:
    """What runs `WindowRows` on t (G, H, M) and start (N, R)."""
    result = (start[0], t[0], room[0], start[1], room[1])
    return _window_kernel(dtype).at([t, start, room], [result])
