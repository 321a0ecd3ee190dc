"""The QR decomposition: an orthonormal basis of the columns, and the columns in that basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Op, Spec
from chainrule.errors import ConfigError, GradientError
from chainrule.ops.contraction import matmul
from chainrule.ops.families import conj
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.linalg.base import halved_diagonal, matrices, mh, outputs, upper
from chainrule.ops.linalg.equal import total
from chainrule.ops.linalg.solving import solve_triangular
from chainrule.ops.shapes.joining import concat


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangular (or trapezoidal) matrix."""

    Q: Any
    R: Any


class Qr(Op):
    """x = Q R; with `full` Q is square, otherwise it has as many columns as x, at most m."""

    full: bool
    many = True
    states_jvp = False

    @property
    def name(self) -> str:
        """`qr`."""
        return "qr"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's, by Householder reflections; the diagonal of R may be negative."""
        return tuple(np.linalg.qr(xs[0], mode="complete" if self.full else "reduced"))

    def spec(self, *xs: Any) -> tuple[Spec, Spec]:
        """(..., m, k), (..., k, n); k is m for `full`, otherwise min(m, n)."""
        (x,) = xs
        *lead, m, n = x.shape
        k = m if self.full else min(m, n)
        return Spec((*lead, m, k), x.dtype), Spec((*lead, k, n), x.dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Outputs and input."""
        return (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """(G_Q + Q C) R^-H for m >= n, where C is Hermitian with the upper triangle of
        G_R RH - QH G_Q. Walter & Lehmann 2010, arXiv:1009.6112, section 3."""
        (x,) = xs
        m, n = x.shape[-2:]
        if self.full and m > n:
            raise GradientError(
                f"qr: with mode='complete' the columns of Q beyond the first {n} are any basis of "
                f"what a {m} x {n} matrix leaves, so they have no derivative; use mode='reduced'"
            )
        q, r = outputs(self, y, x)
        g_q, g_r = [None if bar is None else conj(bar) for bar in g]
        from_r = None if g_r is None else matmul(g_r, mh(r))
        from_q = None if g_q is None else -matmul(mh(q), g_q)
        c = upper(total(from_r, from_q, like=r))
        c = (c + mh(c)) * halved_diagonal(n, x.dtype)
        b = total(g_q, matmul(q, c), like=x)
        return (conj(mh(solve_triangular(r, mh(b), upper=True))),)


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """Q, R with x = Q R.

    Shapes: (..., m, n) -> (..., m, m), (..., m, n) if mode == "complete";
        (..., m, n) -> (..., m, min(m, n)), (..., min(m, n), n).
    mode="complete" has a gradient for m <= n only. Where the first min(m, n) columns of a matrix
    are linearly dependent there is no derivative, and a backward pass raises `MatrixError`.
    Walter & Lehmann 2010, arXiv:1009.6112.

    >>> [x.shape for x in cr.linalg.qr(cr.ones((5, 3)))]
    [(5, 3), (3, 3)]
    """
    if mode not in ("reduced", "complete"):
        raise ConfigError(f"qr: mode is 'reduced' or 'complete', not {mode!r}")
    x = matrices("qr", x)
    m, n = x.shape[-2:]
    if m >= n:
        return QRResult(*apply(Qr(mode == "complete"), x))
    q, r = apply(Qr(False), getitem(x, (..., slice(None, m))))
    return QRResult(q, concat([r, matmul(mh(q), getitem(x, (..., slice(m, None))))], axis=-1))
