"""Equations with a banded matrix, which is given by its diagonals.

Of a matrix `a` with `l` diagonals below and `u` above the main one row r of `bands` is diagonal
number u - r: bands[r, j] = a[r - u + j, j]. SciPy and LAPACK have this form. What of a row lies
outside of the matrix is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.errors import ConfigError, ShapeError, describe
from chainrule.ops.families import sum_to
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.indexing.selection import where
from chainrule.ops.linalg.base import MatrixError, matrices
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import astype, expand_dims, reshape
from chainrule.optional import require


class SolveBanded(Op):
    """The y with a y = b, from the bands of a and columns b."""

    l: int
    u: int

    @property
    def name(self) -> str:
        """`solve_banded`."""
        return "solve_banded"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's elimination within the bands, by SciPy."""
        bands, b = xs
        spec = self.spec(*xs)
        y = np.empty(spec.shape, spec.dtype)
        if not y.size:
            return y
        solve = require("scipy.linalg", "solve_banded").solve_banded
        batch = spec.shape[:-2]
        bands = np.where(self._rows(bands.shape[-1])[1], bands, 0)  # LAPACK may look outside
        bands, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (bands, b))
        for place in np.ndindex(*batch):
            try:
                y[place] = solve((self.l, self.u), bands[place], b[place], check_finite=False)
            except np.linalg.LinAlgError as cause:
                raise MatrixError(
                    f"solve_banded: the matrix of the bands {describe(xs[0])} is singular"
                ) from cause
        return y

    def spec(self, *xs: Any) -> Spec:
        """The batch of both, and the columns of b."""
        bands, b = xs
        batch = np.broadcast_shapes(bands.shape[:-2], b.shape[:-2])
        return Spec((*batch, *b.shape[-2:]), np.result_type(bands.dtype, b.dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """The bands; for their own derivative the output as well."""
        return (0, 1) if i == 0 else (1,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """z solves aT z = g; b_bar = z, a_bar = -z yT, of which the bands are taken."""
        bands, b = xs
        z = apply(SolveBanded(self.u, self.l), self._transposed(bands), g)
        bands_bar = None
        if need[0]:
            row, inside = self._rows(bands.shape[-1])
            terms = getitem(z, (..., row, slice(None))) * expand_dims(y, -3)
            bands_bar = sum_to(-where(inside, red.sum(terms, axis=-1), 0), bands.shape)
        return bands_bar, sum_to(z, b.shape) if need[1] else None

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The solution for b_dot - a_dot y."""
        bands_dot, b_dot = ts
        if bands_dot is None:
            return apply(self, xs[0], b_dot)
        change = self._product(bands_dot, y)
        return apply(self, xs[0], -change if b_dot is None else b_dot - change)

    def _rows(self, n: int) -> tuple[Array, Array]:
        """For each place of the bands the row of the matrix, and whether there is one."""
        i = np.arange(self.l + self.u + 1)[:, None] - self.u + np.arange(n)
        return np.clip(i, 0, n - 1), (i >= 0) & (i < n)

    def _transposed(self, bands: Any) -> Any:
        """The bands of aT."""
        row, inside = SolveBanded(self.u, self.l)._rows(bands.shape[-1])
        diagonal = np.repeat(np.arange(self.l + self.u, -1, -1)[:, None], row.shape[1], axis=1)
        return where(inside, getitem(bands, (..., diagonal, row)), 0)

    def _product(self, bands: Any, y: Any) -> Any:
        """a y."""
        n = int(bands.shape[-1])
        rows = np.arange(self.l + self.u + 1)[:, None]
        column = np.arange(n) - rows + self.u
        diagonal = np.broadcast_to(rows, column.shape)
        inside, column = (column >= 0) & (column < n), np.clip(column, 0, n - 1)
        factor = where(inside, getitem(bands, (..., diagonal, column)), 0)
        return red.sum(expand_dims(factor, -1) * getitem(y, (..., column, slice(None))), axis=-3)


def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any, /) -> Any:
    """The y with a y = b, a with l diagonals below and u above the main one. Needs SciPy.

    Shapes: ab (r, n), b (n) -> (n); ab (..., r, n), b (..., n, k) -> (..., n, k).
    `ab` are the diagonals, r = l + u + 1, the topmost first: ab[u + i - j, j] = a[i, j]. What of it
    lies outside of the matrix is not read, and has gradient 0. Raises `MatrixError` for a singular
    matrix.

    >>> cr.linalg.solve_banded((0, 0), cr.tensor([[2.0, 4.0]]), cr.tensor([2.0, 8.0]))
    tensor([1., 2.], dtype=float32)
    """
    l, u = (int(n) for n in cast("Sequence[int]", l_and_u))
    ab = matrices("solve_banded", ab)
    if b.ndim == 1:
        return reshape(solve_banded((l, u), ab, reshape(b, (-1, 1))), (-1,))
    b = matrices("solve_banded", b)
    if min(l, u) < 0 or ab.shape[-2] != l + u + 1:
        raise ConfigError(
            f"solve_banded: {l} diagonals below and {u} above the main one are {l + u + 1} rows, "
            f"not {describe(ab)}"
        )
    if ab.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"solve_banded: {describe(ab)} are diagonals of {ab.shape[-1]} unknowns, {describe(b)} "
            f"has {b.shape[-2]} equations"
        )
    dtype = np.result_type(ab.dtype, b.dtype)
    return apply(SolveBanded(l, u), astype(ab, dtype), astype(b, dtype))
