"""Eigenvalues and eigenvectors of square matrices that need not be Hermitian.

With x = V diag(w) V^-1 and dP = V^-1 dx V: dw = diag(dP), and dV = V (F * dP), F_ij =
1 / (w_j - w_i) off the diagonal, less the part that would change the length of a column: columns
have length 1. Giles 2008, "Collected matrix derivative results", section 3.1; Boeddeker et al.
2017, arXiv:1701.00392, section 4 (complex matrices, columns of length 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.errors import GradientError
from chainrule.ops.complex import real
from chainrule.ops.contraction import matmul
from chainrule.ops.families import conj
from chainrule.ops.linalg.base import (
    MatrixError,
    diagonal,
    diagonally,
    lapack,
    matrices,
    mh,
    outputs,
)
from chainrule.ops.linalg.equal import inverse_gaps, rounding, total
from chainrule.ops.linalg.solving import solve
from chainrule.ops.shapes.shaping import expand_dims


class EigResult(NamedTuple):
    """Eigenvalues (..., n) in no order, and eigenvectors (..., n, n) in columns, both complex."""

    eigenvalues: Any
    eigenvectors: Any


def _complex(dtype: Any) -> Any:
    return np.result_type(dtype, np.complex64)


class Eig(Op):
    """Eigenvalues w and eigenvectors V of square matrices, x V = V diag(w), always complex."""

    many = True
    states_jvp = False

    @property
    def name(self) -> str:
        """`eig`."""
        return "eig"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's: columns of length 1."""
        (x,) = xs
        try:
            return tuple([part.astype(_complex(x.dtype), copy=False) for part in lapack.eig(x)])
        except np.linalg.LinAlgError as cause:
            bad = not np.isfinite(x).all()
            reason = "it holds NaN or infinity" if bad else "try it in float64, or scaled"
            raise MatrixError(
                f"eig: the iteration on {x.dtype} {x.shape} did not converge: {reason}"
            ) from cause

    def spec(self, *xs: Any) -> tuple[Spec, Spec]:
        """(..., n), (..., n, n), complex."""
        (x,) = xs
        return Spec(x.shape[:-1], _complex(x.dtype)), Spec(x.shape, _complex(x.dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """Outputs and input."""
        return (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """V^-H (diag(G_w) + conj(F) * (K - VH V diag(Re K))) VH, with K = VH G_V."""
        w, v = outputs(self, y, xs[0])
        g_w, g_v = [None if bar is None else conj(bar) for bar in g]
        turn = None
        if g_v is not None:
            k = matmul(mh(v), g_v)
            lengths = expand_dims(real(diagonal(k)), -2)
            given = () if g_w is None else (g_w,)
            turn = apply(Apart(), k - matmul(mh(v), v) * lengths, k, w, *given)
            turn = inverse_gaps(conj(w)) * turn
        if g_w is not None:
            g_w = apply(Alike(), g_w, w)
        inside = total(None if g_w is None else diagonally(g_w), turn, like=v)
        bar = conj(solve(mh(v), matmul(inside, mh(v))))
        return (bar if xs[0].dtype.kind == "c" else real(bar),)


# --- What has no derivative ----------------------------------------------------------------------


class _Checked(Op):
    """Its first input, once the others have told that a derivative exists."""

    def spec(self, *xs: Any) -> Spec:
        """That of the first input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...] | None:
        """Nothing; only the first input has a gradient."""
        return None if i else ()

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g`."""
        return (g, *[None] * (len(xs) - 1))

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The first input's tangent."""
        return ts[0]


class Apart(_Checked):
    """The cotangent (..., n, n) of the vectors in their own basis, less what changes lengths.

    Inputs: it, the whole one (to tell rounding by), the values (..., n) and, if there is one, the
    values' cotangent (..., n).
    """

    @property
    def name(self) -> str:
        """`apart`."""
        return "apart"

    def eval(self, *xs: Any) -> Any:
        """It; raises `GradientError` where it asks for a phase, or for vectors of equal values."""
        k, whole, values = xs[:3]
        noise = np.sqrt(np.finfo(k.dtype).eps) * np.abs(whole).max(initial=0)
        own = np.diagonal(k, 0, -2, -1)
        if (np.abs(np.imag(own)) > noise).any():
            raise GradientError(
                "eig: the loss depends on the phase of an eigenvector, which is arbitrary: it has "
                "no derivative. Use a function that is the same for every phase, such as absolute "
                "values"
            )
        _refuse(_equal(values) & (np.abs(k) > noise))
        if len(xs) == 4:
            touched = (np.abs(k) > noise).any(-2) & (np.abs(xs[3]) > 0)
            _refuse(_equal(values) & (touched[..., None] | touched[..., None, :]))
        return k


class Alike(_Checked):
    """The cotangent (..., n) of the values. Inputs: it and the values."""

    @property
    def name(self) -> str:
        """`alike`."""
        return "alike"

    def eval(self, *xs: Any) -> Any:
        """It; raises `GradientError` where equal values are not treated alike."""
        g, values = xs
        noise = np.sqrt(np.finfo(g.dtype).eps) * np.abs(g).max(initial=0)
        _refuse(_equal(values) & (np.abs(g[..., None] - g[..., None, :]) > noise))
        return g


def _equal(values: Array) -> Array:
    """Which different places hold values that are equal up to rounding."""
    gap = np.abs(values[..., None] - values[..., None, :])
    most = np.abs(values).max(axis=-1, initial=0)[..., None, None]
    return (gap <= rounding(values) * most) & ~np.eye(values.shape[-1], dtype=bool)


def _refuse(found: Array) -> None:
    """Raise where an element is true, naming the values."""
    if not found.any():
        return
    *batch, i, j = np.argwhere(found)[0].tolist()
    where = f" of matrix {batch}" if batch else ""
    raise GradientError(
        f"eig: values {i} and {j}{where} are equal, and the loss tells them or their vectors "
        "apart: it has no derivative here. Use a function that treats equal values alike, such as "
        "trace, det or matrix_power, or move the values apart by a small change of the matrix"
    )


# --- Functions -----------------------------------------------------------------------------------


def eig(x: Any, /) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices, complex even where the matrix is real.

    Shapes: (..., n, n) -> (..., n), (..., n, n).
    Values in LAPACK's order; columns have length 1 and any phase. A backward pass raises
    `GradientError` where the loss depends on a phase, or tells equal values or their vectors apart,
    and `MatrixError` where the vectors do not span the space. Boeddeker et al. 2017,
    arXiv:1701.00392, section 4. For symmetric and Hermitian matrices `eigh` is better.

    >>> cr.linalg.eig(cr.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j], dtype=complex64)
    """
    return EigResult(*apply(Eig(), matrices("eig", x, square=True)))


def eigvals(x: Any, /) -> Any:
    """The eigenvalues of square matrices, complex; as `eig` does it.

    Shapes: (..., n, n) -> (..., n).

    >>> cr.linalg.eigvals(cr.tensor([[0.0, -1.0], [1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return eig(x).eigenvalues
